package sql

import (
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millrace/millrace/sdk/connector"
)

func newTask(t *testing.T, fields []connector.Field, settings map[string]string) connector.Task {
	t.Helper()
	checked, err := connector.NewSettings(fields, settings)
	if err != nil {
		t.Fatal(err)
	}
	return connector.Task{Connector: "test", Settings: checked, Log: slog.New(slog.NewTextHandler(t.Output(), nil)), StateDir: t.TempDir()}
}

// openSink opens a sink on a new database file, and returns it with the file.
func openSink(t *testing.T, settings map[string]string) (*sink, string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "out.db")
	settings["connection.url"] = "sqlite:" + file
	s := &sink{}
	if err := s.Open(t.Context(), newTask(t, sinkFields(), settings)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
	return s, file
}

func upsertSettings() map[string]string {
	return map[string]string{"insert.mode": "upsert", "delete.enabled": "true", "auto.create": "true", "auto.evolve": "true"}
}

// record makes a record of JSON texts; "" is null.
func record(key, value string) connector.Record {
	r := connector.Record{Topic: "page-views"}
	if key != "" {
		r.Key = connector.DocumentValue(connector.Document(key))
	}
	if value != "" {
		r.Value = connector.DocumentValue(connector.Document(value))
	}
	return r
}

func write(t *testing.T, s *sink, records ...connector.Record) error {
	t.Helper()
	batch := &connector.Batch{}
	for _, r := range records {
		batch.Append(r)
	}
	return s.Write(t.Context(), batch)
}

// query reads all rows of a query, cells joined by "|".
func query(t *testing.T, file, text string) []string {
	t.Helper()
	db, err := sql.Open("sqlite", file)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	rows, err := db.Query(text)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	columns, _ := rows.Columns()
	var out []string
	for rows.Next() {
		values := make([]any, len(columns))
		targets := make([]any, len(columns))
		for i := range values {
			targets[i] = &values[i]
		}
		if err := rows.Scan(targets...); err != nil {
			t.Fatal(err)
		}
		cells := make([]string, len(values))
		for i, v := range values {
			cells[i] = fmt.Sprint(v)
		}
		out = append(out, strings.Join(cells, "|"))
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

func expect(t *testing.T, got []string, want ...string) {
	t.Helper()
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestUpsertCreatesTheTableOfTheTopic(t *testing.T) {
	s, file := openSink(t, upsertSettings())
	err := write(t, s,
		record(`{"path":"/a","start":1}`, `{"views":1,"ratio":0.10}`),
		record(`{"path":"/b","start":1}`, `{"views":5,"ratio":2.5}`),
		record(`{"path":"/a","start":1}`, `{"views":2,"ratio":0.30}`))
	if err != nil {
		t.Fatal(err)
	}
	expect(t, query(t, file, "SELECT path, start, views, ratio FROM page_views ORDER BY path"), "/a|1|2|0.30", "/b|1|5|2.5")
}

func TestLastOfAKeyWinsWithinABatch(t *testing.T) {
	s, file := openSink(t, upsertSettings())
	if err := write(t, s, record(`{"k":1}`, `{"v":1}`), record(`{"k":1}`, ""), record(`{"k":1}`, `{"v":3}`), record(`{"k":2}`, `{"v":1}`), record(`{"k":2}`, "")); err != nil {
		t.Fatal(err)
	}
	expect(t, query(t, file, "SELECT k, v FROM page_views"), "1|3")
}

func TestTombstoneBeforeTheTableExistsIsNoError(t *testing.T) {
	s, _ := openSink(t, upsertSettings())
	if err := write(t, s, record(`{"k":1}`, "")); err != nil {
		t.Fatal(err)
	}
}

func TestNumbersStayExact(t *testing.T) {
	s, file := openSink(t, upsertSettings())
	err := write(t, s, record(`{"k":1}`, `{"max":9223372036854775807,"beyond":92233720368547758080,"fraction":0.1234567890123456789012345}`))
	if err != nil {
		t.Fatal(err)
	}
	expect(t, query(t, file, "SELECT max, beyond, fraction FROM page_views"), "9223372036854775807|92233720368547758080|0.1234567890123456789012345")
	expect(t, query(t, file, "SELECT type FROM pragma_table_info('page_views') WHERE name <> 'k'"), "BIGINT", "DECIMAL_TEXT", "DECIMAL_TEXT")
}

func TestNestedJSONAndBooleansAndText(t *testing.T) {
	s, file := openSink(t, upsertSettings())
	if err := write(t, s, record(`"scalar"`, `{"ok":true,"list":[1, 2],"text":"a\nb","none":null}`)); err != nil {
		t.Fatal(err)
	}
	expect(t, query(t, file, "SELECT key, ok, list, text FROM page_views"), "scalar|1|[1, 2]|a\nb")
}

func TestOneBadRecordOfABatch(t *testing.T) {
	s, file := openSink(t, upsertSettings())
	var records []connector.Record
	for i := range 100 {
		records = append(records, record(fmt.Sprintf(`{"k":%d}`, i), fmt.Sprintf(`{"v":%d}`, i)))
	}
	records[37] = record(`{"k":37}`, `{"v":"text where a number belongs"}`)
	err := write(t, s, records...)
	var bad connector.RecordErrors
	if !errors.As(err, &bad) || len(bad) != 1 || bad[37] == nil {
		t.Fatalf("error is %v, want one about record 37", err)
	}
	expect(t, query(t, file, "SELECT count(*) FROM page_views"), "99")
}

func TestBadRecordsAreNamed(t *testing.T) {
	cases := map[string]connector.Record{
		"no key":             record("", `{"v":1}`),
		"null in key":        record(`{"k":null}`, `{"v":1}`),
		"value not object":   record(`{"k":1}`, `[1]`),
		"text value":         {Topic: "page-views", Key: connector.TextValue("k"), Value: connector.TextValue("x")},
		"other key's fields": record(`{"other":1}`, `{"v":1}`),
	}
	s, _ := openSink(t, upsertSettings())
	if err := write(t, s, record(`{"k":1}`, `{"v":1}`)); err != nil {
		t.Fatal(err)
	}
	for name, r := range cases {
		var bad connector.RecordErrors
		if err := write(t, s, r); !errors.As(err, &bad) {
			t.Errorf("%s: error is %v, want one of the record", name, err)
		}
	}
}

func TestNewFieldsNeedEvolve(t *testing.T) {
	settings := upsertSettings()
	settings["auto.evolve"] = "false"
	s, _ := openSink(t, settings)
	if err := write(t, s, record(`{"k":1}`, `{"v":1}`)); err != nil {
		t.Fatal(err)
	}
	var bad connector.RecordErrors
	if err := write(t, s, record(`{"k":1}`, `{"w":1}`)); !errors.As(err, &bad) || !strings.Contains(err.Error(), "auto.evolve") {
		t.Errorf("error is %v, want one that names auto.evolve", err)
	}

	s, file := openSink(t, upsertSettings())
	if err := write(t, s, record(`{"k":1}`, `{"v":1}`), record(`{"k":2}`, `{"v":2,"w":"new"}`), record(`{"k":3}`, `{"V":3,"w":null}`)); err != nil {
		t.Fatal(err)
	}
	expect(t, query(t, file, "SELECT k, v, w FROM page_views ORDER BY k"), "1|1|<nil>", "2|2|new", "3|3|<nil>")
}

func TestInsertDeliveredTwiceIsOneRow(t *testing.T) {
	s, file := openSink(t, map[string]string{"auto.create": "true", "pk.fields": "id"})
	for range 2 {
		if err := write(t, s, record(`{"id":1}`, `{"v":1}`), record(`{"id":2}`, `{"v":2}`)); err != nil {
			t.Fatal(err)
		}
	}
	expect(t, query(t, file, "SELECT id, v FROM page_views ORDER BY id"), "1|1", "2|2")
}

func TestMissingTableFailsTheTask(t *testing.T) {
	s, _ := openSink(t, map[string]string{"insert.mode": "upsert"})
	err := write(t, s, record(`{"k":1}`, `{"v":1}`))
	var bad connector.RecordErrors
	if err == nil || errors.As(err, &bad) || !strings.Contains(err.Error(), "auto.create") {
		t.Errorf("error is %v, want one of the task that names auto.create", err)
	}
}

func TestFailedBatchLeavesNothingBehind(t *testing.T) {
	s, file := openSink(t, upsertSettings())
	settings := record(`{"k":1}`, `{"v":1}`)
	missing := record(`{"k":1}`, `{"v":1}`)
	s.cfg.AutoCreate = true
	if err := write(t, s, settings); err != nil {
		t.Fatal(err)
	}
	s.cfg.AutoCreate = false
	missing.Topic = "elsewhere"
	if err := write(t, s, record(`{"k":2}`, `{"v":2}`), missing); err == nil {
		t.Fatal("no error about the missing table")
	}
	expect(t, query(t, file, "SELECT k FROM page_views"), "1")
	if err := write(t, s, record(`{"k":2}`, `{"v":2}`)); err != nil {
		t.Fatalf("after a failed batch: %v", err)
	}
}

func TestURLIsChecked(t *testing.T) {
	for _, url := range []string{"", "postgres://x", "sqlite:", "sqlite::memory:"} {
		if _, err := connector.NewSettings(sinkFields(), map[string]string{"connection.url": url}); err == nil {
			t.Errorf("%q was accepted", url)
		}
	}
}

func sourceOn(t *testing.T, file string, resume map[string]string, more map[string]string) *source {
	t.Helper()
	settings := map[string]string{"connection.url": "sqlite:" + file, "table.whitelist": "orders", "follow": "false", "topic.prefix": "db."}
	for k, v := range more {
		settings[k] = v
	}
	task := newTask(t, sourceFields(), settings)
	task.Resume = resume
	s := &source{}
	if err := s.Open(t.Context(), task); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close(t.Context()) })
	return s
}

func execAll(t *testing.T, file string, statements ...string) {
	t.Helper()
	db, err := sql.Open("sqlite", file)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, text := range statements {
		if _, err := db.Exec(text); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
}

// readAll reads to the end and returns the records as "position key=… cells".
func readAll(t *testing.T, s *source) []string {
	t.Helper()
	var out []string
	for {
		batch := &connector.Batch{}
		err := s.Read(t.Context(), batch)
		for _, r := range batch.Rows() {
			row := r.Value.Row()
			var cells []string
			for i := range row.Len() {
				cells = append(cells, fmt.Sprintf("%s %v", row.Schema().Column(i).Type, row.Cell(i).Any()))
			}
			out = append(out, fmt.Sprintf("%s %s %v: %s", r.Topic, r.Origin.Position, r.Key.Row().Cell(0).Any(), strings.Join(cells, ", ")))
		}
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestSourceReadsNewRowsWithTheirTypes(t *testing.T) {
	file := filepath.Join(t.TempDir(), "in.db")
	execAll(t, file, `CREATE TABLE orders (id INTEGER PRIMARY KEY, at DATETIME, price DECIMAL(10,2), note TEXT, paid BOOLEAN, raw BLOB)`,
		`INSERT INTO orders VALUES (1, '2026-01-02 03:04:05', 9.90, NULL, 1, x'00ff'), (7, 'soon', '12.50', 'x', 0, NULL)`)
	s := sourceOn(t, file, nil, nil)
	expect(t, readAll(t, s),
		"db.orders 1 1: int64 1, text 2026-01-02 03:04:05, decimal 9.9, text <nil>, bool true, bytes [0 255]",
		"db.orders 7 7: int64 7, text soon, decimal 12.5, text x, bool false, bytes <nil>")

	execAll(t, file, `INSERT INTO orders (id, note) VALUES (8, 'later')`)
	resumed := sourceOn(t, file, map[string]string{"orders": "7"}, nil)
	expect(t, readAll(t, resumed), "db.orders 8 8: int64 8, text <nil>, decimal <nil>, text later, bool <nil>, bytes <nil>")
}

func TestSourceReadsInPagesToTheEnd(t *testing.T) {
	file := filepath.Join(t.TempDir(), "in.db")
	execAll(t, file, `CREATE TABLE orders (id INTEGER PRIMARY KEY, n INT)`,
		`WITH RECURSIVE c(i) AS (SELECT -5 UNION ALL SELECT i+1 FROM c WHERE i < 994) INSERT INTO orders SELECT i, i*2 FROM c`)
	got := readAll(t, sourceOn(t, file, nil, map[string]string{"batch.max.rows": "7"}))
	if len(got) != 1000 || got[0] != "db.orders -5 -5: int64 -5, int64 -10" || got[999] != "db.orders 994 994: int64 994, int64 1988" {
		t.Errorf("read %d rows, the first %q", len(got), got[0])
	}
}

func TestSourceKeepsWhatDoesNotFitItsColumn(t *testing.T) {
	file := filepath.Join(t.TempDir(), "in.db")
	execAll(t, file, `CREATE TABLE orders (id INTEGER PRIMARY KEY, n INT)`, `INSERT INTO orders VALUES (1, 'many'), (2, 2.5), (3, 3)`)
	expect(t, readAll(t, sourceOn(t, file, nil, nil)),
		"db.orders 1 1: int64 1, text many", "db.orders 2 2: int64 2, float64 2.5", "db.orders 3 3: int64 3, int64 3")
}

func TestSourceNamesWhatIsMissing(t *testing.T) {
	file := filepath.Join(t.TempDir(), "in.db")
	execAll(t, file, `CREATE TABLE orders (n INT)`)
	for setting, settings := range map[string]map[string]string{
		"table.whitelist":          {"table.whitelist": "absent"},
		"incrementing.column.name": {"incrementing.column.name": "seq"},
	} {
		full := map[string]string{"connection.url": "sqlite:" + file, "table.whitelist": "orders"}
		for k, v := range settings {
			full[k] = v
		}
		s := &source{}
		err := s.Open(t.Context(), newTask(t, sourceFields(), full))
		problems := connector.Problems(err)
		if len(problems) != 1 || problems[0].Setting != setting {
			t.Errorf("error is %v, want a problem of %s", err, setting)
		}
	}
}
