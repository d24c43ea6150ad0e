package sql

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
)

// querier is a transaction or the database itself.
type querier interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// table is what the sink knows of one table. Names of columns are compared as
// SQLite does, without regard to case.
type table struct {
	name    string
	columns map[string]columnType // by name in lower case
	key     []string              // columns of the primary key, in order
}

// loadTable reads a table's columns; ok is false if there is no such table.
func loadTable(ctx context.Context, q querier, name string) (t *table, ok bool, err error) {
	rows, err := q.QueryContext(ctx, "SELECT name, type, pk FROM pragma_table_info(?) ORDER BY cid", name)
	if err != nil {
		return nil, false, fmt.Errorf("reading the columns of table %s: %w", name, err)
	}
	defer rows.Close()
	t = &table{name: name, columns: map[string]columnType{}}
	keys := map[int]string{}
	for rows.Next() {
		var column, typ string
		var pk int
		if err := rows.Scan(&column, &typ, &pk); err != nil {
			return nil, false, fmt.Errorf("reading the columns of table %s: %w", name, err)
		}
		t.columns[strings.ToLower(column)] = declared(typ)
		if pk > 0 {
			keys[pk] = column
		}
	}
	for i := 1; i <= len(keys); i++ {
		t.key = append(t.key, keys[i])
	}
	return t, len(t.columns) > 0, rows.Err()
}

// createTable makes a table with the columns of a record. A field whose type
// is not known yet gets its column when it has a value.
func createTable(ctx context.Context, q querier, name string, key, fields []field) error {
	var lines, names []string
	for _, f := range key {
		lines = append(lines, quote(f.name)+" "+string(f.typ)+" NOT NULL")
		names = append(names, quote(f.name))
	}
	for _, f := range fields {
		if f.typ != "" && !contains(key, f.name) {
			lines = append(lines, quote(f.name)+" "+string(f.typ))
		}
	}
	if len(lines) == 0 {
		return fmt.Errorf("creating table %s: the record has no field with a value", name)
	}
	if len(names) > 0 {
		lines = append(lines, "PRIMARY KEY ("+strings.Join(names, ", ")+")")
	}
	if _, err := q.ExecContext(ctx, "CREATE TABLE "+quote(name)+" ("+strings.Join(lines, ", ")+")"); err != nil {
		return fmt.Errorf("creating table %s: %w", name, err)
	}
	return nil
}

func contains(fields []field, name string) bool {
	return slices.ContainsFunc(fields, func(f field) bool { return strings.EqualFold(f.name, name) })
}

// missing returns the fields with a known type that have no column, or what
// does not fit into the column that is there.
func (t *table) missing(fields []field) ([]field, error) {
	var without []field
	for _, f := range fields {
		column, ok := t.columns[strings.ToLower(f.name)]
		switch {
		case f.typ == "":
		case !ok:
			without = append(without, f)
		case f.value != nil && !column.holds(f.typ):
			return nil, fmt.Errorf("field %q is %s, and column %s of table %s is %s", f.name, f.typ, f.name, t.name, column)
		}
	}
	return without, nil
}

func addColumn(ctx context.Context, q querier, table string, f field) error {
	if _, err := q.ExecContext(ctx, "ALTER TABLE "+quote(table)+" ADD COLUMN "+quote(f.name)+" "+string(f.typ)); err != nil {
		return fmt.Errorf("adding column %s to table %s: %w", f.name, table, err)
	}
	return nil
}

// writeStatement is the text that writes a row of these columns.
func writeStatement(table string, key, fields []field, mode string) string {
	var names, marks, updates []string
	for _, f := range slices.Concat(key, fields) {
		names = append(names, quote(f.name))
		marks = append(marks, "?")
	}
	text := "INSERT INTO " + quote(table) + " (" + strings.Join(names, ", ") + ") VALUES (" + strings.Join(marks, ", ") + ")"
	if mode != modeUpsert {
		return text + " ON CONFLICT DO NOTHING"
	}
	for _, f := range fields {
		updates = append(updates, quote(f.name)+" = excluded."+quote(f.name))
	}
	text += " ON CONFLICT (" + strings.Join(names[:len(key)], ", ") + ")"
	if len(updates) == 0 {
		return text + " DO NOTHING"
	}
	return text + " DO UPDATE SET " + strings.Join(updates, ", ")
}

// deleteStatement is the text that deletes the row of a key.
func deleteStatement(table string, key []field) string {
	var conditions []string
	for _, f := range key {
		conditions = append(conditions, quote(f.name)+" = ?")
	}
	return "DELETE FROM " + quote(table) + " WHERE " + strings.Join(conditions, " AND ")
}
