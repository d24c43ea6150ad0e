package file

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/sdk/connector"
)

func openSink(t testing.TB, folder string, settings ...string) *sink {
	t.Helper()
	values := map[string]string{"path": folder}
	for i := 0; i < len(settings); i += 2 {
		values[settings[i]] = settings[i+1]
	}
	s, err := connector.NewSettings(sinkFields(), values)
	if err != nil {
		t.Fatal(err)
	}
	made := &sink{}
	if err := made.Open(context.Background(), connector.Task{Settings: s, Log: slog.New(slog.NewTextHandler(t.Output(), nil))}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = made.Close(context.Background()) })
	return made
}

func record(offset int64, text string) connector.Record {
	return connector.Record{Topic: "t", Offset: offset, Timestamp: time.UnixMilli(1000 + offset), Value: connector.TextValue(text)}
}

func batch(records ...connector.Record) *connector.Batch {
	b := new(connector.Batch)
	for _, r := range records {
		b.Append(r)
	}
	return b
}

func mustWrite(t testing.TB, s *sink, records ...connector.Record) {
	t.Helper()
	if err := s.Write(context.Background(), batch(records...)); err != nil {
		t.Fatal(err)
	}
}

func requireFile(t testing.TB, path string, want ...string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n"); !slices.Equal(got, want) {
		t.Errorf("%s holds\n%q, want\n%q", path, got, want)
	}
}

func TestRecordsBecomeLinesOfJSON(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "made", "here")
	s := openSink(t, folder)
	doc, err := connector.ParseDocument([]byte(`{"n":12345678901234567890.10,"a":[true]}`))
	if err != nil {
		t.Fatal(err)
	}
	mustWrite(t, s,
		connector.Record{Topic: "t", Partition: 2, Offset: 7, Timestamp: time.UnixMilli(1_700_000_000_123), Key: connector.TextValue("k\"1"), Value: connector.DocumentValue(doc)},
		connector.Record{Topic: "t", Partition: 2, Offset: 8, Key: connector.TextValue("k2"), Headers: []connector.Header{{Name: "h", Value: []byte("v")}, {Name: "h"}, {Name: "b", Value: []byte{0xff}}}},
		connector.Record{Topic: "other", Value: connector.BytesValue([]byte{1, 2})})
	requireFile(t, filepath.Join(folder, "t-0.jsonl"),
		`{"topic":"t","partition":2,"offset":7,"timestamp":"2023-11-14T22:13:20.123Z","key":"k\"1","value":{"n":12345678901234567890.10,"a":[true]}}`,
		`{"topic":"t","partition":2,"offset":8,"key":"k2","value":null,"headers":[["h","v"],["h",null],["b",null,"/w=="]]}`)
	requireFile(t, filepath.Join(folder, "other-0.jsonl"), `{"topic":"other","partition":0,"offset":0,"key":null,"value":"AQI="}`)
}

func TestOneBadRecordCostsOneRecord(t *testing.T) {
	folder := t.TempDir()
	s := openSink(t, folder, "format", "value")
	for range 2 { // also when the batch comes again
		err := s.Write(context.Background(), batch(record(0, "a"), record(1, "\xff"), record(2, "c")))
		bad, ok := errors.AsType[connector.RecordErrors](err)
		if !ok || len(bad) != 1 || !strings.Contains(bad[1].Error(), "not UTF-8") {
			t.Fatalf("error is %v", err)
		}
		requireFile(t, filepath.Join(folder, "t-0.jsonl"), `"a"`, `"c"`)
	}
}

func TestRecordsThatComeAgainAreWrittenOnce(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "t-0.jsonl")
	s := openSink(t, folder, "format", "value")
	mustWrite(t, s, record(0, "a"), record(1, "b"))
	mustWrite(t, s, record(1, "b"), record(2, "c"))
	s = openSink(t, folder, "format", "value")
	mustWrite(t, s, record(0, "a"), record(1, "b"), record(2, "c"), record(3, "d"))
	requireFile(t, path, `"a"`, `"b"`, `"c"`, `"d"`)

	// The topic was deleted and made again: the same offsets, other records.
	later := record(0, "a")
	later.Timestamp = time.UnixMilli(5000)
	mustWrite(t, s, later, record(1, "new"))
	requireFile(t, path, `"a"`, `"b"`, `"c"`, `"d"`, `"a"`, `"new"`)
}

func TestDocumentsOfSeveralLinesBecomeOne(t *testing.T) {
	folder := t.TempDir()
	s := openSink(t, folder, "format", "value")
	mustWrite(t, s, connector.Record{Topic: "t", Value: connector.DocumentValue(connector.Document("{\n \"a\": 1.50,\n \"b\": \"x\\ny\"\n}"))})
	requireFile(t, filepath.Join(folder, "t-0.jsonl"), `{"a":1.50,"b":"x\ny"}`)
	err := s.Write(context.Background(), batch(connector.Record{Topic: "t", Offset: 1, Value: connector.DocumentValue(connector.Document("{\n"))}))
	if bad, ok := errors.AsType[connector.RecordErrors](err); !ok || bad[0] == nil {
		t.Errorf("a document that is no JSON: %v", err)
	}
}

func TestOnlyTheLastLinesAreKept(t *testing.T) {
	r := newRecentLines()
	var lines []byte
	for i := range recentMax + 10 {
		lines = strconv.AppendInt(lines, int64(i), 10)
		lines = append(lines, '\n')
	}
	r.add(lines)
	if r.has([]byte("9\n")) || !r.has([]byte("10\n")) || len(r.count) != recentMax {
		t.Errorf("%d lines are known", len(r.count))
	}
}

// Every state in which a crash can leave the folder is repaired, and the batch
// that comes again is there once.
func TestCrashesLeaveNoHalfLineAndNoDuplicate(t *testing.T) {
	for _, c := range []struct {
		name  string
		crash func(t *testing.T, path, state string)
	}{
		{"half a line was written", func(t *testing.T, path, _ string) { appendTo(t, path, `"b`) }},
		{"the lines were written, but not the state", func(t *testing.T, path, _ string) { appendTo(t, path, "\"b\"\n\"c\"\n") }},
		{"the new state was written, but not renamed", func(t *testing.T, path, state string) {
			appendTo(t, path, "\"b\"\n\"c\"\n")
			write(t, state+".new", `{"byt`)
		}},
		{"nothing was written", func(*testing.T, string, string) {}},
	} {
		t.Run(c.name, func(t *testing.T) {
			folder := t.TempDir()
			path := filepath.Join(folder, "t-0.jsonl")
			mustWrite(t, openSink(t, folder, "format", "value"), record(0, "a"))
			c.crash(t, path, filepath.Join(folder, ".t-0.state"))
			mustWrite(t, openSink(t, folder, "format", "value"), record(1, "b"), record(2, "c"))
			requireFile(t, path, `"a"`, `"b"`, `"c"`)
		})
	}
}

func TestFileWithoutStateIsGoneOnWith(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "t-0.jsonl")
	write(t, path, "\"old\"\n\"hal")
	mustWrite(t, openSink(t, folder, "format", "value"), record(0, "a"))
	requireFile(t, path, `"old"`, `"a"`)
}

func TestFullFilesArePutAside(t *testing.T) {
	folder := t.TempDir()
	s := openSink(t, folder, "format", "value", "rotate.bytes", "8")
	for i, text := range []string{"a", "b", "c", "d", "e"} { // 4 bytes a line
		mustWrite(t, s, record(int64(i), text))
	}
	requireFile(t, filepath.Join(folder, "t-0.000001.jsonl"), `"a"`, `"b"`)
	requireFile(t, filepath.Join(folder, "t-0.000002.jsonl"), `"c"`, `"d"`)
	requireFile(t, filepath.Join(folder, "t-0.jsonl"), `"e"`)

	// A crash right after a file was put aside: its state is that of the old.
	rename(t, filepath.Join(folder, "t-0.jsonl"), filepath.Join(folder, "t-0.000003.jsonl"))
	s = openSink(t, folder, "format", "value", "rotate.bytes", "8")
	mustWrite(t, s, record(4, "e"), record(5, "f"))
	requireFile(t, filepath.Join(folder, "t-0.jsonl"), `"f"`)
}

func TestDamagedStateIsSaid(t *testing.T) {
	folder := t.TempDir()
	write(t, filepath.Join(folder, ".t-0.state"), "{")
	err := openSink(t, folder).Write(context.Background(), batch(record(0, "a")))
	if err == nil || !strings.Contains(err.Error(), "remove "+filepath.Join(folder, ".t-0.state")) {
		t.Errorf("error is %v", err)
	}
}
