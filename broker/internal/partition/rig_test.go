package partition

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/millrace/millrace/broker/internal/batch"
	"github.com/millrace/millrace/broker/internal/disk"
	"github.com/millrace/millrace/broker/internal/ident"
)

// clock is a wall clock that stands still until it is moved.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock { return &clock{now: time.UnixMilli(1_700_000_000_000)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// rig is a partition with all that is around it.
type rig struct {
	t       testing.TB
	clock   *clock
	fs      disk.FS
	codecs  *batch.Codecs
	syncers *Syncers
	hooks   Hooks
	p       *Partition
}

func newRig(t testing.TB, fs disk.FS, s Settings) *rig {
	t.Helper()
	r := &rig{t: t, clock: newClock(), fs: fs, codecs: batch.NewCodecs(), syncers: NewSyncers(4)}
	if fs == nil {
		r.fs = disk.NewMemory(r.clock.Now)
	}
	t.Cleanup(func() {
		if r.p != nil {
			_ = r.p.Close()
		}
		r.syncers.Close()
	})
	if err := r.open(s, Checkpoint{}, false); err != nil {
		t.Fatal(err)
	}
	return r
}

// open opens the partition and makes it the leader.
func (r *rig) open(s Settings, c Checkpoint, clean bool) error {
	if err := r.fs.MkdirAll("data/t-0"); err != nil {
		return err
	}
	p, err := Open(Config{
		Partition: ident.TopicPartition{Topic: "t"}, Self: 1, FS: r.fs, Dir: "data/t-0", Codecs: r.codecs, Settings: s,
		Start: c.Start, RecoveryPoint: c.RecoveryPoint, HighWatermark: c.HighWatermark, Clean: clean,
		Syncers: r.syncers, Now: r.clock.Now, Hooks: r.hooks,
	})
	if err != nil {
		return err
	}
	r.p = p
	return p.BecomeLeader(Leadership{InSync: []ident.BrokerID{1}})
}

// record makes a client's batch of the values.
func (r *rig) batch(codec batch.Codec, values ...string) batch.View {
	r.t.Helper()
	b := batch.NewBuilder(r.codecs, codec)
	return r.build(b, values...)
}

// idempotent makes a batch of producer 7.
func (r *rig) idempotent(sequence int32, values ...string) batch.View {
	r.t.Helper()
	b := batch.NewBuilder(r.codecs, batch.None)
	b.SetProducer(7, 0, sequence)
	return r.build(b, values...)
}

func (r *rig) build(b *batch.Builder, values ...string) batch.View {
	r.t.Helper()
	for i, v := range values {
		b.Append(batch.Record{Timestamp: r.clock.Now().UnixMilli() + int64(i), Key: []byte("k"), Value: []byte(v)})
	}
	v, err := b.Build()
	if err != nil {
		r.t.Fatal(err)
	}
	return v
}

// start appends and returns where the result will come.
func (r *rig) start(v batch.View, acks Acks) (<-chan AppendResult, *Wait) {
	done := make(chan AppendResult, 2) // two, so that a second call shows
	w := r.p.Append(AppendRequest{Batches: v, Acks: acks, Epoch: ident.NoLeaderEpoch}, func(res AppendResult) { done <- res })
	return done, w
}

// append appends and waits for the result.
func (r *rig) append(v batch.View, acks Acks) AppendResult {
	r.t.Helper()
	done, _ := r.start(v, acks)
	return r.wait(done)
}

func (r *rig) wait(done <-chan AppendResult) AppendResult {
	r.t.Helper()
	select {
	case res := <-done:
		return res
	case <-time.After(10 * time.Second):
		r.t.Fatal("append was not answered within 10 s")
		return AppendResult{}
	}
}

func (r *rig) mustAppend(v batch.View, acks Acks) AppendResult {
	r.t.Helper()
	res := r.append(v, acks)
	if res.Err != nil {
		r.t.Fatalf("append: %v", res.Err)
	}
	return res
}

func notYet(t testing.TB, done <-chan AppendResult) {
	t.Helper()
	select {
	case res := <-done:
		t.Fatalf("append was answered too early: %+v", res)
	default:
	}
}

// values reads all records that the isolation shows, as "offset=value".
func (r *rig) values(iso Isolation) []string {
	r.t.Helper()
	var out []string
	from := r.p.Marks().Start
	for {
		res, err := r.p.Read(ReadRequest{From: from, Isolation: iso, BytesMax: 1 << 20, AtLeastOne: true, Epoch: ident.NoLeaderEpoch})
		if err != nil {
			r.t.Fatalf("reading from %d: %v", from, err)
		}
		b, err := res.Records.Append(nil)
		if err := errors.Join(err, res.Records.Close()); err != nil {
			r.t.Fatalf("reading from %d: %v", from, err)
		}
		if len(b) == 0 {
			return out
		}
		for len(b) > 0 {
			v, rest, err := batch.Next(b)
			if err != nil {
				r.t.Fatalf("framing: %v", err)
			}
			if err := errors.Join(v.VerifyCRC(), batch.Records(v, r.codecs, func(rec batch.Record) bool {
				if rec.Offset >= from {
					out = append(out, fmt.Sprintf("%d=%s", rec.Offset, rec.Value))
				}
				return true
			})); err != nil {
				r.t.Fatal(err)
			}
			b, from = rest, max(from, v.NextOffset())
		}
	}
}

func (r *rig) wantValues(iso Isolation, want ...string) {
	r.t.Helper()
	if got := r.values(iso); fmt.Sprint(got) != fmt.Sprint(want) {
		r.t.Errorf("log holds %v, want %v", got, want)
	}
}

// eventually polls until ok.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within 10 s: %s", what)
		}
	}
}

// gate is a file system whose syncs of files wait while it is shut.
type gate struct {
	disk.FS
	mu    sync.Mutex
	open  chan struct{} // closed when open
	syncs int
}

func newGate(fs disk.FS) *gate {
	g := &gate{FS: fs, open: make(chan struct{})}
	close(g.open)
	return g
}

func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open = make(chan struct{})
}

func (g *gate) release() {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.open)
}

func (g *gate) count() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.syncs
}

func (g *gate) OpenWrite(path string) (disk.File, error) {
	f, err := g.FS.OpenWrite(path)
	return &gatedFile{f, g}, err
}

type gatedFile struct {
	disk.File
	g *gate
}

func (f *gatedFile) Sync() error {
	f.g.mu.Lock()
	open := f.g.open
	f.g.syncs++
	f.g.mu.Unlock()
	<-open
	return f.File.Sync()
}
