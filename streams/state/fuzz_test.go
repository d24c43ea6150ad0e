package state

import (
	"bytes"
	"reflect"
	"testing"
	"time"

	"github.com/millrace/millrace/streams/window"
)

func FuzzDecodeCheckpoint(f *testing.F) {
	f.Add([]byte{})
	f.Add(appendCheckpoint(nil, Checkpoint{}))
	f.Add(appendCheckpoint(nil, Checkpoint{
		Committed:   time.UnixMilli(1_700_000_000_000),
		StreamTimes: map[string]window.Instant{"": 5, "views": -1},
		Changelogs:  map[string]Position{"counts": {TopicID: [16]byte{1, 2}, Next: 1 << 40}},
	}))
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := decodeCheckpoint(b)
		if err != nil {
			return
		}
		again, err := decodeCheckpoint(appendCheckpoint(nil, c))
		if err != nil || !reflect.DeepEqual(again, c) {
			t.Fatalf("decoded %+v, encoded and decoded again %+v, %v", c, again, err)
		}
	})
}

func FuzzDecodeDescription(f *testing.F) {
	f.Add([]byte{})
	f.Add(appendDescription(nil, description{KindKeyValue, 0, 0}))
	f.Add(appendDescription(nil, description{KindSession, 60_000, 1 << 50}))
	f.Fuzz(func(t *testing.T, b []byte) {
		d, err := decodeDescription(b)
		if err != nil {
			return
		}
		again, err := decodeDescription(appendDescription(nil, d))
		if err != nil || again != d {
			t.Fatalf("decoded %+v, encoded and decoded again %+v, %v", d, again, err)
		}
	})
}

func FuzzSplitKeys(f *testing.F) {
	f.Add([]byte("short"))
	f.Add(AppendWindowKey(nil, []byte("key"), 60_000, 0))
	f.Add(AppendSessionKey(nil, []byte("key"), window.Span{Start: 5, End: 9}))
	f.Fuzz(func(t *testing.T, b []byte) {
		if key, start, seq, err := SplitWindowKey(b); err == nil {
			if again := AppendWindowKey(nil, key, start, seq); !bytes.Equal(again, b) {
				t.Errorf("window key %x came back as %x", b, again)
			}
		}
		if key, span, err := SplitSessionKey(b); err == nil {
			if again := AppendSessionKey(nil, key, span); !bytes.Equal(again, b) {
				t.Errorf("session key %x came back as %x", b, again)
			}
		}
	})
}

// FuzzRestore gives a store whatever a changelog may hold: it is taken or
// refused, and the store stays readable.
func FuzzRestore(f *testing.F) {
	f.Add([]byte{}, []byte{}, int64(0))
	f.Add(AppendWindowKey(nil, []byte("key"), 60_000, 0), []byte("12345678value"), int64(7))
	f.Add(AppendSessionKey(nil, []byte("key"), window.Span{Start: 5, End: 1<<63 - 1}), []byte(nil), int64(9))
	f.Fuzz(func(t *testing.T, key, value []byte, offset int64) {
		for _, kind := range []Kind{KindKeyValue, KindWindow, KindSession} {
			spec := Spec{Name: "s", Kind: kind, InMemory: true}
			if kind != KindKeyValue {
				spec.Retention = time.Hour
			}
			s, err := Open(Config{Specs: []Spec{spec}})
			if err != nil {
				t.Fatal(err)
			}
			if s.Restore("s", key, value, max(offset, 0)) == nil {
				if err := s.Commit(Checkpoint{}); err != nil {
					t.Errorf("%v: commit: %v", kind, err)
				}
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}
