package sql

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/millrace/millrace/sdk/connector"
	"github.com/millrace/millrace/sdk/connector/connectortest"
)

func TestMain(m *testing.M) { connectortest.Main(m, Plugin()) }

// wrongURLs are refused by sources and sinks alike.
func wrongURLs() []connectortest.WrongSettings {
	var all []connectortest.WrongSettings
	for _, url := range []string{"", "oracle:x", "sqlite:", "sqlite::memory:", "sqlite:/no/such/folder/app.db"} {
		all = append(all, connectortest.WrongSettings{Setting: "connection.url", Settings: map[string]string{"connection.url": url}})
	}
	return all
}

func TestSourceIsAGoodConnector(t *testing.T) {
	for _, follow := range []bool{false, true} {
		t.Run(fmt.Sprintf("follow %v", follow), func(t *testing.T) {
			connectortest.TestSource(t, connectortest.Source{
				Plugin: Plugin(),
				Setup: func(t *testing.T, records int) map[string]string {
					return map[string]string{
						"connection.url":   "sqlite:" + twoTables(t, records),
						"table.whitelist":  "odd, even",
						"follow":           strconv.FormatBool(follow),
						"poll.interval.ms": "10",
						"batch.max.rows":   "40",
					}
				},
				Endless: follow,
				WrongSettings: append(wrongURLs(),
					connectortest.WrongSettings{Setting: "table.whitelist", Settings: map[string]string{"table.whitelist": ""}},
					connectortest.WrongSettings{Setting: "table.whitelist", Settings: map[string]string{"table.whitelist": "odd,missing"}},
					connectortest.WrongSettings{Setting: "table.whitelist", Settings: map[string]string{"table.whitelist": "odd,ODD"}},
					connectortest.WrongSettings{Setting: "incrementing.column.name", Settings: map[string]string{"incrementing.column.name": "missing"}},
					connectortest.WrongSettings{Setting: "batch.max.rows", Settings: map[string]string{"batch.max.rows": "0"}},
				),
			})
		})
	}
}

// twoTables makes a database whose two tables have so many rows between them,
// and returns its file.
func twoTables(t *testing.T, rows int) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "in.db")
	db, err := sql.Open("sqlite", file)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	statements := []string{"BEGIN"}
	for _, table := range []string{"even", "odd"} {
		statements = append(statements, "CREATE TABLE "+table+" (id INTEGER PRIMARY KEY, text TEXT, price DECIMAL(10,2), data BLOB)")
	}
	for i := range rows {
		statements = append(statements, fmt.Sprintf("INSERT INTO %s VALUES (%d, 'row %d', %d.25, x'%02x')", []string{"even", "odd"}[i%2], 10*i, i, i, i%256))
	}
	if _, err := db.Exec(strings.Join(append(statements, "COMMIT"), ";\n")); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestSinkIsAGoodConnector(t *testing.T) {
	for _, mode := range []string{modeInsert, modeUpsert} {
		t.Run(mode, func(t *testing.T) {
			connectortest.TestSink(t, connectortest.Sink{
				Plugin: Plugin(),
				Setup: func(t *testing.T) map[string]string {
					return map[string]string{
						"connection.url": "sqlite:" + filepath.Join(t.TempDir(), "out.db"),
						"insert.mode":    mode,
						"auto.create":    "true",
					}
				},
				Record: func(i int) connector.Record {
					return record(fmt.Sprintf(`{"id": %d}`, i), fmt.Sprintf(`{"n": %d, "text": "row %d"}`, i, i))
				},
				BadRecord:  func() connector.Record { return record(`{"id": 1000}`, `"no object"`) },
				Written:    writtenNumbers,
				Idempotent: mode == modeUpsert,
				WrongSettings: append(wrongURLs(),
					connectortest.WrongSettings{Setting: "insert.mode", Settings: map[string]string{"insert.mode": "replace"}},
					connectortest.WrongSettings{Setting: "delete.enabled", Settings: map[string]string{"delete.enabled": "true", "insert.mode": modeInsert}},
				),
			})
		})
	}
}

// writtenNumbers returns the numbers in the table of the suite's topic.
func writtenNumbers(t *testing.T, settings map[string]string) []int {
	t.Helper()
	file := strings.TrimPrefix(settings["connection.url"], sqliteScheme)
	if len(query(t, file, "SELECT 1 FROM sqlite_schema WHERE name = 'under_test'")) == 0 {
		return nil
	}
	var numbers []int
	for _, row := range query(t, file, "SELECT n FROM under_test") {
		n, err := strconv.Atoi(row)
		if err != nil {
			t.Fatal(err)
		}
		numbers = append(numbers, n)
	}
	return numbers
}
