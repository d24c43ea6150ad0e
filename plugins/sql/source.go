package sql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/millrace/millrace/sdk/connector"
)

type sourceConfig struct {
	URL    string        `setting:"connection.url"`
	Tables []string      `setting:"table.whitelist"`
	Column string        `setting:"incrementing.column.name"`
	Prefix string        `setting:"topic.prefix"`
	Pause  time.Duration `setting:"poll.interval.ms"`
	Rows   int           `setting:"batch.max.rows"`
	Follow bool          `setting:"follow"`
}

// source reads the new rows of tables, one query a table in turn.
type source struct {
	cfg    sourceConfig
	db     *sql.DB
	tables []*reader
	next   int // the table whose turn it is
	// idle counts the tables in a row that had nothing new.
	idle int
}

// reader is how far one table has been read.
type reader struct {
	table   string
	columns []column
	schemas map[string]*connector.Schema // by the types of the row's cells
	keyAt   int                          // index of the incrementing column
	keys    *connector.Schema            // of the records' keys
	last    int64
	started bool
}

// column is a column of the table as the source declares it.
type column struct {
	name string
	typ  connector.Type
	key  bool
}

// Open implements [connector.Source].
func (s *source) Open(ctx context.Context, task connector.Task) error {
	if err := task.Settings.Decode(&s.cfg); err != nil {
		return err
	}
	for i, name := range s.cfg.Tables {
		if slices.ContainsFunc(s.cfg.Tables[:i], func(earlier string) bool { return strings.EqualFold(earlier, name) }) {
			return connector.Problemf("table.whitelist", "table %s is there twice", name)
		}
	}
	db, err := open(ctx, s.cfg.URL)
	if err != nil {
		return err
	}
	for _, name := range s.cfg.Tables {
		r, err := openReader(ctx, db, name, s.cfg.Column, task.Resume)
		if err != nil {
			return errors.Join(err, db.Close())
		}
		s.tables = append(s.tables, r)
	}
	s.db = db
	return nil
}

// Close implements [connector.Source].
func (s *source) Close(context.Context) error { return s.db.Close() }

func openReader(ctx context.Context, db *sql.DB, name, incrementing string, resume map[string]string) (*reader, error) {
	t, ok, err := loadTable(ctx, db, name)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, connector.Problemf("table.whitelist", "there is no table %s", name)
	}
	r := &reader{table: name, schemas: map[string]*connector.Schema{}, keyAt: -1}
	if err := r.loadColumns(ctx, db, t, incrementing); err != nil {
		return nil, err
	}
	if r.keyAt < 0 {
		return nil, connector.Problemf("incrementing.column.name", "table %s has no column %s", name, incrementing)
	}
	if r.keys, err = connector.NewSchema(name, connector.Column{Name: r.columns[r.keyAt].name, Type: connector.Int64, Required: true, Key: true}); err != nil {
		return nil, err
	}
	if position, ok := resume[name]; ok {
		if r.last, err = strconv.ParseInt(position, 10, 64); err != nil {
			return nil, fmt.Errorf("resuming table %s: its stored position %q is not a number: %w", name, position, err)
		}
		r.started = true
	}
	return r, nil
}

// loadColumns keeps the order of the table's declaration.
func (r *reader) loadColumns(ctx context.Context, db *sql.DB, t *table, incrementing string) error {
	rows, err := db.QueryContext(ctx, "SELECT name FROM pragma_table_info(?) ORDER BY cid", t.name)
	if err != nil {
		return fmt.Errorf("reading the columns of table %s: %w", t.name, err)
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return fmt.Errorf("reading the columns of table %s: %w", t.name, err)
		}
		if strings.EqualFold(name, incrementing) {
			r.keyAt = len(r.columns)
		}
		r.columns = append(r.columns, column{name, sourceTypes[t.columns[strings.ToLower(name)]], strings.EqualFold(name, incrementing)})
	}
	return rows.Err()
}

var sourceTypes = map[columnType]connector.Type{
	typeInteger: connector.Int64, typeFloat: connector.Float64, typeDecimal: connector.DecimalType, typeBool: connector.BoolType,
	typeText: connector.TextType, typeBytes: connector.BytesType, typeTimestamp: connector.TextType, typeJSON: connector.JSONType,
}

// Read implements [connector.Source]: one query for the table whose turn it is,
// and a pause when all tables in a row had nothing new.
func (s *source) Read(ctx context.Context, out *connector.Batch) error {
	for {
		r := s.tables[s.next]
		s.next = (s.next + 1) % len(s.tables)
		if err := r.read(ctx, s.db, s.cfg, out); err != nil {
			if isBusy(err) {
				return connector.Retry(err, 0)
			}
			return err
		}
		if out.Len() > 0 {
			s.idle = 0
			return nil
		}
		if s.idle++; s.idle < len(s.tables) {
			continue
		}
		if !s.cfg.Follow {
			return io.EOF
		}
		s.idle = 0
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(s.cfg.Pause):
		}
	}
}

func (r *reader) read(ctx context.Context, db *sql.DB, cfg sourceConfig, out *connector.Batch) error {
	text, args := r.query(cfg.Rows)
	rows, err := db.QueryContext(ctx, text, args...)
	if err != nil {
		return fmt.Errorf("reading table %s: %w", r.table, err)
	}
	defer rows.Close()
	values := make([]any, len(r.columns))
	targets := make([]any, len(r.columns))
	for i := range values {
		targets[i] = &values[i]
	}
	for rows.Next() && !out.Full() {
		if err := rows.Scan(targets...); err != nil {
			return fmt.Errorf("reading a row of table %s: %w", r.table, err)
		}
		record, err := r.record(cfg.Prefix, values)
		if err != nil {
			return err
		}
		out.Append(record)
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("reading table %s: %w", r.table, err)
	}
	return nil
}

// query reads the rows above the last one. The driver would make times of the
// texts in columns declared as dates; the unary plus has it leave them alone.
func (r *reader) query(limit int) (string, []any) {
	var names []string
	for _, c := range r.columns {
		names = append(names, "+"+quote(c.name))
	}
	text := "SELECT " + strings.Join(names, ", ") + " FROM " + quote(r.table)
	var args []any
	key := quote(r.columns[r.keyAt].name)
	if r.started {
		text += " WHERE " + key + " > ?"
		args = append(args, r.last)
	}
	return text + " ORDER BY " + key + " LIMIT " + strconv.Itoa(limit), args
}

func (r *reader) record(prefix string, values []any) (connector.Record, error) {
	last, ok := values[r.keyAt].(int64)
	if !ok {
		return connector.Record{}, fmt.Errorf("table %s has a row whose %s is %v, which is no whole number: it cannot be read by that column",
			r.table, r.columns[r.keyAt].name, values[r.keyAt])
	}
	cells := make([]connector.Cell, len(values))
	for i, v := range values {
		cells[i] = cellOf(v, r.columns[i].typ)
	}
	schema, err := r.schema(cells)
	if err != nil {
		return connector.Record{}, err
	}
	row, err := schema.Row(cells...)
	if err != nil {
		return connector.Record{}, err
	}
	key, err := r.keys.Row(connector.Int(last))
	if err != nil {
		return connector.Record{}, err
	}
	r.last, r.started = last, true
	origin := connector.Origin{Partition: r.table, Position: strconv.FormatInt(last, 10)}
	record := connector.NewRecord(origin, connector.RowValue(key), connector.RowValue(row))
	record.Topic = prefix + r.table
	return record, nil
}

// schema returns the schema for these cells. SQLite lets a row hold anything
// in any column: one that holds something else than its column says has a
// schema of its own, so that its values arrive as they are.
func (r *reader) schema(cells []connector.Cell) (*connector.Schema, error) {
	columns := make([]connector.Column, len(cells))
	signature := make([]byte, len(cells))
	for i, c := range r.columns {
		columns[i] = connector.Column{Name: c.name, Type: c.typ, Key: c.key}
		if t := cells[i].Type(); cells[i].HasValue() {
			columns[i].Type = t
		}
		signature[i] = byte(columns[i].Type)
	}
	if s := r.schemas[string(signature)]; s != nil {
		return s, nil
	}
	s, err := connector.NewSchema(r.table, columns...)
	if err != nil {
		return nil, err
	}
	r.schemas[string(signature)] = s
	return s, nil
}

// cellOf makes a cell of what the driver returned, of the column's type if the
// value is of that type, and of the value's own otherwise.
func cellOf(v any, want connector.Type) connector.Cell {
	switch v := v.(type) {
	case nil:
		return connector.Null
	case int64:
		return intCell(v, want)
	case float64:
		if want == connector.DecimalType {
			// SQLite stores the fractions of such a column as doubles; the
			// shortest text that means that double is what was written.
			if d, err := connector.ParseDecimal(strconv.FormatFloat(v, 'f', -1, 64)); err == nil {
				return connector.Dec(d)
			}
		}
		return connector.Float(v)
	case bool:
		return connector.Bool(v)
	case string:
		return textCell(v, want)
	case []byte:
		return connector.Bytes(v)
	}
	return connector.Text(fmt.Sprint(v))
}

func intCell(v int64, want connector.Type) connector.Cell {
	switch {
	case want == connector.DecimalType:
		return connector.Dec(connector.DecimalOf(v))
	case want == connector.BoolType && (v == 0 || v == 1):
		return connector.Bool(v == 1)
	}
	return connector.Int(v)
}

func textCell(v string, want connector.Type) connector.Cell {
	switch want {
	case connector.DecimalType:
		if d, err := connector.ParseDecimal(v); err == nil {
			return connector.Dec(d)
		}
	case connector.JSONType:
		if d, err := connector.ParseDocument([]byte(v)); err == nil {
			return connector.JSON(d)
		}
	}
	return connector.Text(v)
}
