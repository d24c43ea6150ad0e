package worker

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace/millrace/streams/internal/task"
	"github.com/millrace/millrace/streams/state"
	"github.com/millrace/millrace/streams/window"
)

func TestWhereARestoreBegins(t *testing.T) {
	now := time.Date(2026, 1, 10, 0, 0, 0, 0, time.UTC)
	rt := &Runtime{
		cfg:    Config{Now: func() time.Time { return now }},
		topics: &topics{tombstones: map[string]time.Duration{"log": 24 * time.Hour}},
	}
	id, other := [16]byte{1}, [16]byte{2}
	at := func(next int64, id [16]byte, age time.Duration) state.Checkpoint {
		return state.Checkpoint{Committed: now.Add(-age), Changelogs: map[string]state.Position{"s": {TopicID: id, Next: next}}}
	}
	for name, tt := range map[string]struct {
		start, end int64
		checkpoint state.Checkpoint
		from       int64
		reason     string
	}{
		"up to date":                {5, 20, at(20, id, time.Hour), 20, ""},
		"a tail is missing":         {5, 20, at(12, id, time.Hour), 12, ""},
		"empty changelog":           {0, 0, state.Checkpoint{}, 0, ""},
		"empty, trimmed changelog":  {20, 20, state.Checkpoint{}, 20, ""},
		"no state":                  {5, 20, state.Checkpoint{}, 5, "no state"},
		"trimmed beyond the state":  {13, 20, at(12, id, time.Hour), 13, "begins at offset 13"},
		"another topic of the name": {5, 20, at(12, other, time.Hour), 5, "made again"},
		"a changelog that lost its end": {
			5, 20, at(30, id, time.Hour), 5, "ends at offset 20",
		},
		"state older than tombstones": {5, 20, at(12, id, 25*time.Hour), 5, "forgets deletes"},
		"old, but nothing came since": {5, 20, at(20, id, 25*time.Hour), 20, ""},
	} {
		t.Run(name, func(t *testing.T) {
			from, reason := rt.whereToBegin(&changelog{store: "s", topic: "log", id: id, start: tt.start, end: tt.end}, tt.checkpoint)
			if from != tt.from || (reason == "") != (tt.reason == "") || !strings.Contains(reason, tt.reason) {
				t.Errorf("begins at %d because %q, want %d because %q", from, reason, tt.from, tt.reason)
			}
		})
	}
}

func TestStreamTimeComesFromTheCommittedOffset(t *testing.T) {
	r := &taskRun{inputs: map[string]*input{
		"ahead":  {time: 5},
		"behind": {time: 9},
		"reset":  {time: noTime}, // by a tool
		"new":    {time: noTime},
	}}
	got := r.times(state.Checkpoint{StreamTimes: map[string]window.Instant{"ahead": 7, "behind": 7, "reset": 7}})
	if len(got) != 2 || got["ahead"] != 7 || got["behind"] != 9 {
		t.Errorf("times %v, want 7 for ahead and 9 for behind", got)
	}
}

func FuzzDecodeTime(f *testing.F) {
	for _, s := range []string{"", "millrace/1 time=0", "millrace/1 time=1700000000000", "millrace/1 time=-1", "millrace/1 time=+1", "AgAAAX"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if at := decodeTime(s); at != noTime && encodeTime(at) != s {
			t.Errorf("%q means %d, which is written %q", s, at, encodeTime(at))
		}
	})
}

func FuzzParseSyncAssignment(f *testing.F) {
	f.Add([]byte{})
	a := kmsg.NewConsumerMemberAssignment()
	a.Version = 1
	topic := kmsg.NewConsumerMemberAssignmentTopic()
	topic.Topic, topic.Partitions = "in", []int32{0, 2}
	a.Topics = append(a.Topics, topic)
	f.Add(a.AppendTo(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		_, _ = balancer{}.ParseSyncAssignment(b) // must not panic
	})
}

func TestStateFolderOfAnotherProcessIsRefused(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "app")
	first, err := openStateDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := openStateDir(dir); err == nil || !strings.Contains(err.Error(), dir) {
		t.Errorf("second open: %v, want an error that names %s", err, dir)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := openStateDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if again.process != first.process {
		t.Errorf("the process id changed from %x to %x", first.process, again.process)
	}
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "process-id"), []byte("damage"), 0o644); err != nil {
		t.Fatal(err)
	}
	mended, err := openStateDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if mended.process == first.process || mended.process == [16]byte{} {
		t.Errorf("process id %x after the file was damaged, want a new one", mended.process)
	}
	if err := mended.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestFolderIsHandedOverWithinAProcess(t *testing.T) {
	d := &stateDir{held: map[task.ID]chan struct{}{}, progress: map[task.ID]int64{}}
	id := task.ID{Sub: "s", Partition: 1}
	if err := d.hold(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := d.hold(ctx, id); !errors.Is(err, context.Canceled) {
		t.Errorf("holding a folder that is held: %v, want to wait until the context ends", err)
	}
	got := make(chan error)
	go func() { got <- d.hold(t.Context(), id) }()
	d.release(id)
	if err := <-got; err != nil {
		t.Error(err)
	}
}

func TestRecordsGoWhereTheySay(t *testing.T) {
	p := newPartitioner().ForTopic("t")
	java := kgo.StickyKeyPartitioner(nil).ForTopic("t")
	for _, key := range []string{"a", "b", "c", "long key"} {
		r := &kgo.Record{Key: []byte(key), Partition: task.ByKey}
		if got, want := p.Partition(r, 7), java.Partition(r, 7); got != want {
			t.Errorf("key %q goes to %d, Kafka's partitioner says %d", key, got, want)
		}
		r.Partition = 5
		if got := p.Partition(r, 7); got != 5 || !p.RequiresConsistency(r) {
			t.Errorf("a record for partition 5 goes to %d", got)
		}
	}
}

func TestErrorsThatTryingAgainDoesNotMend(t *testing.T) {
	for err, want := range map[error]bool{
		kerr.TopicAuthorizationFailed: true, kerr.FencedInstanceID: true, kerr.CoordinatorLoadInProgress: false, io.EOF: false, kerr.RebalanceInProgress: false,
	} {
		if got := isFatal(&kgo.ErrGroupSession{Err: err}); got != want {
			t.Errorf("%v is fatal: %v, want %v", err, got, want)
		}
	}
}

func TestCloneBytesKeepsNilApartFromEmpty(t *testing.T) {
	k, v := cloneBytes([]byte{}, nil)
	if k == nil || v != nil {
		t.Errorf("empty and nil became %v and %v", k, v)
	}
	key, value := []byte("key"), []byte("value")
	k, v = cloneBytes(key, value)
	key[0], value[0] = 'x', 'x'
	k = append(k, '!')
	if string(k) != "key!" || string(v) != "value" {
		t.Errorf("clones are %q and %q", k, v)
	}
}

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

func TestScanReadsHowFarFoldersAre(t *testing.T) {
	d, err := openStateDir(filepath.Join(t.TempDir(), "app"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	id := task.ID{Sub: "s", Partition: 0}
	stores, err := state.Open(state.Config{Dir: d.taskDir(id), Specs: []state.Spec{{Name: "a", Kind: state.KindKeyValue}, {Name: "b", Kind: state.KindKeyValue}}})
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(stores.Commit(state.Checkpoint{Changelogs: map[string]state.Position{"a": {Next: 3}, "b": {Next: 4}}}), stores.Close())
	if err != nil {
		t.Fatal(err)
	}
	d.scan([]task.ID{id, {Sub: "s", Partition: 1}}, discard())
	if got := d.known(); len(got) != 1 || got[id] != 7 {
		t.Errorf("progress %v, want 7 for the folder that is there", got)
	}
}
