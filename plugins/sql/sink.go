package sql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/millrace/millrace/sdk/connector"
)

// sink writes records to tables, one transaction a batch.
//
// Records are applied in their order, so of several with one key the last one
// wins. A record that is delivered again finds its row and changes nothing.
type sink struct {
	cfg sinkConfig
	log *slog.Logger
	db  *sql.DB
	// conn is the one connection: prepared statements belong to it.
	conn   *sql.Conn
	tables map[string]*table // by name
	// statements are prepared once; their texts tell them apart.
	statements map[string]*sql.Stmt
}

// statementsMax bounds the prepared statements: records whose fields differ
// from one to the next each need one of their own.
const statementsMax = 500

// Validate implements [connector.Validator].
func (s *sink) Validate(ctx context.Context, settings connector.Settings) error {
	var cfg sinkConfig
	if err := settings.Decode(&cfg); err != nil {
		return err
	}
	return checkSink(cfg)
}

func checkSink(cfg sinkConfig) error {
	if cfg.Delete && cfg.Mode != modeUpsert {
		return connector.Problemf("delete.enabled", "it needs insert.mode=upsert, as only then keys name rows")
	}
	return nil
}

// Open implements [connector.Sink].
func (s *sink) Open(ctx context.Context, task connector.Task) error {
	s.log = task.Log
	if err := task.Settings.Decode(&s.cfg); err != nil {
		return err
	}
	if err := checkSink(s.cfg); err != nil {
		return err
	}
	db, err := open(ctx, s.cfg.URL)
	if err != nil {
		return err
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		return errors.Join(fmt.Errorf("connecting to %s: %w", s.cfg.URL, err), db.Close())
	}
	s.db, s.conn, s.tables, s.statements = db, conn, map[string]*table{}, map[string]*sql.Stmt{}
	return nil
}

// Close implements [connector.Sink].
func (s *sink) Close(context.Context) error {
	s.forgetStatements()
	return errors.Join(s.conn.Close(), s.db.Close())
}

// Write implements [connector.Sink].
func (s *sink) Write(ctx context.Context, in *connector.Batch) error {
	bad, err := s.writeBatch(ctx, in)
	if err != nil {
		// What the transaction created is gone with it.
		clear(s.tables)
		s.forgetStatements()
		if isBusy(err) {
			return connector.Retry(err, 0)
		}
		return err
	}
	if len(bad) > 0 {
		return bad
	}
	return nil
}

// writeBatch commits all records but the bad ones.
func (s *sink) writeBatch(ctx context.Context, in *connector.Batch) (connector.RecordErrors, error) {
	if _, err := s.conn.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
		return nil, fmt.Errorf("beginning a transaction: %w", err)
	}
	bad, err := s.writeRecords(ctx, in)
	if err == nil {
		if _, err = s.conn.ExecContext(ctx, "COMMIT"); err != nil {
			err = fmt.Errorf("committing: %w", err)
		}
	}
	if err != nil {
		// If there is nothing to roll back any more, the database has done it.
		_, _ = s.conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK")
	}
	return bad, err
}

func (s *sink) writeRecords(ctx context.Context, in *connector.Batch) (connector.RecordErrors, error) {
	bad := connector.RecordErrors{}
	for i, r := range in.Rows() {
		err := s.writeRecord(ctx, r)
		var refused *badRecord
		switch {
		case err == nil:
		case errors.As(err, &refused):
			bad[i] = refused.cause
		case isConstraint(err):
			bad[i] = err
		default:
			return nil, err
		}
	}
	return bad, nil
}

// badRecord is an error that one record is to blame for.
type badRecord struct{ cause error }

func (b *badRecord) Error() string { return b.cause.Error() }
func (b *badRecord) Unwrap() error { return b.cause }

func badf(format string, args ...any) error { return &badRecord{fmt.Errorf(format, args...)} }

func (s *sink) writeRecord(ctx context.Context, r *connector.Record) error {
	key, fields, err := s.fields(r)
	if err != nil {
		return &badRecord{err}
	}
	name := tableName(s.cfg.Table, r.Topic)
	if r.Value.IsNull() {
		return s.deleteRow(ctx, name, key)
	}
	t, err := s.fit(ctx, name, key, fields)
	if err != nil {
		return err
	}
	fields = slices.DeleteFunc(fields, func(f field) bool {
		_, there := t.columns[strings.ToLower(f.name)]
		return !there || contains(key, f.name) // NULL of a column that is not there yet
	})
	return s.exec(ctx, writeStatement(name, key, fields, s.cfg.Mode), slices.Concat(key, fields))
}

// fields takes a record apart. In mode insert a key is not needed.
func (s *sink) fields(r *connector.Record) (key, fields []field, err error) {
	if s.cfg.Mode == modeUpsert || len(s.cfg.Key) > 0 {
		if key, err = keyFields(r.Key, s.cfg.Key); err != nil {
			return nil, nil, err
		}
	}
	if r.Value.IsNull() {
		if !s.cfg.Delete {
			return nil, nil, errors.New("the record has no value, and delete.enabled is false")
		}
		return key, nil, nil
	}
	fields, err = fieldsOf(r.Value)
	return key, fields, err
}

// tableName fills in table.name.format.
func tableName(format, topic string) string {
	plain := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_':
			return r
		}
		return '_'
	}, topic)
	return strings.ReplaceAll(format, "${topic}", plain)
}

// fit makes the table and its columns fit the record, as far as the user
// allows that.
func (s *sink) fit(ctx context.Context, name string, key, fields []field) (*table, error) {
	t, err := s.table(ctx, name)
	if err != nil {
		return nil, err
	}
	if t == nil {
		if !s.cfg.AutoCreate {
			return nil, fmt.Errorf("there is no table %s: create it, or set auto.create=true", name)
		}
		if err := createTable(ctx, s.conn, name, key, fields); err != nil {
			return nil, err
		}
		s.log.Info("table created", "table", name)
		if t, err = s.table(ctx, name); err != nil {
			return nil, err
		}
	}
	if s.cfg.Mode == modeUpsert && !sameKey(t.key, key) {
		return nil, badf("the key's fields are %v, and the primary key of table %s is %v", names(key), name, t.key)
	}
	missing, err := t.missing(slices.Concat(key, fields))
	if err != nil {
		return nil, &badRecord{err}
	}
	for _, f := range missing {
		if !s.cfg.AutoEvolve {
			return nil, badf("table %s has no column for field %q; auto.evolve=true would add it", name, f.name)
		}
		if err := addColumn(ctx, s.conn, name, f); err != nil {
			return nil, err
		}
		t.columns[strings.ToLower(f.name)] = f.typ
		s.log.Info("column added", "table", name, "column", f.name, "type", string(f.typ))
	}
	return t, nil
}

// table looks a table up once; nil if it is not there.
func (s *sink) table(ctx context.Context, name string) (*table, error) {
	if t := s.tables[name]; t != nil {
		return t, nil
	}
	t, ok, err := loadTable(ctx, s.conn, name)
	if err != nil || !ok {
		return nil, err
	}
	s.tables[name] = t
	return t, nil
}

func sameKey(have []string, key []field) bool {
	if len(have) != len(key) {
		return false
	}
	for _, name := range have {
		if !contains(key, name) {
			return false
		}
	}
	return true
}

func names(fields []field) []string {
	out := make([]string, len(fields))
	for i, f := range fields {
		out[i] = f.name
	}
	return out
}

func (s *sink) deleteRow(ctx context.Context, name string, key []field) error {
	t, err := s.table(ctx, name)
	if err != nil || t == nil {
		return err // without a table there is no row to delete
	}
	if !sameKey(t.key, key) {
		return badf("the key's fields are %v, and the primary key of table %s is %v", names(key), name, t.key)
	}
	return s.exec(ctx, deleteStatement(name, key), key)
}

func (s *sink) exec(ctx context.Context, text string, fields []field) error {
	statement, err := s.prepare(ctx, text)
	if err != nil {
		return err
	}
	args := make([]any, len(fields))
	for i, f := range fields {
		args[i] = f.value
	}
	if _, err := statement.ExecContext(ctx, args...); err != nil {
		return fmt.Errorf("writing a row: %w", err)
	}
	return nil
}

func (s *sink) prepare(ctx context.Context, text string) (*sql.Stmt, error) {
	if st := s.statements[text]; st != nil {
		return st, nil
	}
	if len(s.statements) >= statementsMax {
		s.forgetStatements()
	}
	st, err := s.conn.PrepareContext(ctx, text)
	if err != nil {
		return nil, fmt.Errorf("preparing %s: %w", text, err)
	}
	s.statements[text] = st
	return st, nil
}

func (s *sink) forgetStatements() {
	for _, st := range s.statements {
		_ = st.Close() // a statement that cannot be closed goes with the connection
	}
	clear(s.statements)
}
