package sql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/millrace/millrace/sdk/connector"
)

const sqliteScheme = "sqlite:"

func checkURL(text string) error {
	path, ok := strings.CutPrefix(text, sqliteScheme)
	if !ok {
		return fmt.Errorf("%q is not known: expected sqlite:FILE", text)
	}
	if path == "" || path == ":memory:" {
		return errors.New("a file is needed, as in sqlite:/var/lib/app/app.db")
	}
	return nil
}

// open opens the database of a checked connection.url. Commits are durable
// when they return, and readers are not held up by a writer.
func open(ctx context.Context, text string) (*sql.DB, error) {
	path := strings.TrimPrefix(text, sqliteScheme)
	pragmas := url.Values{"_pragma": {"busy_timeout(5000)", "journal_mode(WAL)", "synchronous(FULL)"}, "_txlock": {"immediate"}}
	db, err := sql.Open("sqlite", "file:"+(&url.URL{Path: path}).EscapedPath()+"?"+pragmas.Encode())
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", text, err)
	}
	db.SetMaxOpenConns(1) // a task is one writer or one reader
	if err := db.PingContext(ctx); err != nil {
		return nil, errors.Join(connector.Problemf("connection.url", "%s cannot be opened: %v", text, err), db.Close())
	}
	return db, nil
}

// isConstraint tells whether a row was refused for what it holds.
func isConstraint(err error) bool {
	var e *sqlite.Error
	return errors.As(err, &e) && (e.Code()&0xff == sqlite3.SQLITE_CONSTRAINT || e.Code()&0xff == sqlite3.SQLITE_MISMATCH || e.Code()&0xff == sqlite3.SQLITE_TOOBIG)
}

// isBusy tells whether another program held the database for too long.
func isBusy(err error) bool {
	var e *sqlite.Error
	return errors.As(err, &e) && (e.Code()&0xff == sqlite3.SQLITE_BUSY || e.Code()&0xff == sqlite3.SQLITE_LOCKED)
}

// quote makes an identifier of any text.
func quote(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// columnType is the type of a column, as the sink declares it. SQLite takes
// the affinity of a column from its declared type: those that hold TEXT keep
// the characters as written, so that decimals stay exact; INT keeps 64 bits.
type columnType string

const (
	typeInteger   columnType = "BIGINT"
	typeDecimal   columnType = "DECIMAL_TEXT"
	typeFloat     columnType = "DOUBLE"
	typeBool      columnType = "BOOLEAN"
	typeText      columnType = "TEXT"
	typeBytes     columnType = "BLOB"
	typeTimestamp columnType = "TIMESTAMP_TEXT"
	typeJSON      columnType = "JSON_TEXT"
)

// holds tells whether a column of one type can hold values of another without
// changing them.
func (t columnType) holds(value columnType) bool {
	switch {
	case t == value:
		return true
	case t == typeDecimal:
		return value == typeInteger
	case t == typeText:
		return value == typeTimestamp || value == typeJSON
	}
	return false
}

// declared finds the type of a column that someone else may have declared, by
// SQLite's own rules of affinity.
func declared(text string) columnType {
	t := strings.ToUpper(text)
	for _, own := range []columnType{typeInteger, typeDecimal, typeFloat, typeBool, typeText, typeBytes, typeTimestamp, typeJSON} {
		if t == string(own) {
			return own
		}
	}
	has := func(parts ...string) bool {
		for _, part := range parts {
			if strings.Contains(t, part) {
				return true
			}
		}
		return false
	}
	switch {
	case has("INT"):
		return typeInteger
	case has("CHAR", "CLOB", "TEXT"), has("DATE", "TIME"):
		return typeText
	case t == "", has("BLOB"):
		return typeBytes
	case has("REAL", "FLOA", "DOUB"):
		return typeFloat
	case has("BOOL"):
		return typeBool
	}
	return typeDecimal // DECIMAL, NUMERIC and all else
}
