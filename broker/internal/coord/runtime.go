package coord

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// QueueLenDefault is the default of Config.QueueLen.
const QueueLenDefault = 4096

// Config is what a [Runtime] needs.
type Config[M Machine] struct {
	// New makes the empty machine of a shard. Required.
	New func(shard int32) M
	// QueueLen is the most requests that may wait for a shard; more are
	// refused with ErrBusy. Zero means QueueLenDefault.
	QueueLen int
	// Now is the clock. Required.
	Now func() time.Time
	// Log receives which shards come and go, and why they fail. Required.
	Log *slog.Logger
}

// Runtime runs the shards that this broker leads. Its methods may be called
// concurrently.
type Runtime[M Machine] struct {
	cfg Config[M]

	mu     sync.RWMutex
	hosts  map[int32]*host[M]
	closed bool
	alive  sync.WaitGroup
}

// NewRuntime returns a runtime that leads no shard.
func NewRuntime[M Machine](cfg Config[M]) *Runtime[M] {
	if cfg.QueueLen == 0 {
		cfg.QueueLen = QueueLenDefault
	}
	return &Runtime[M]{cfg: cfg, hosts: make(map[int32]*host[M])}
}

// Lead takes over a shard, whose machine is loaded from log in the background.
// If it is led already, it is dropped and loaded anew.
func (r *Runtime[M]) Lead(shard int32, log Log) {
	ctx, cancel := context.WithCancel(context.Background())
	h := &host[M]{
		shard: shard, cfg: &r.cfg, cancel: cancel,
		queue: make(chan func(), r.cfg.QueueLen), wake: make(chan struct{}, 1), loaded: make(chan struct{}),
	}
	h.core = NewShard(r.cfg.New(shard), log, h.signal)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		cancel()
		return
	}
	if old, ok := r.hosts[shard]; ok {
		old.cancel()
	}
	r.hosts[shard] = h
	r.alive.Go(func() { h.run(ctx) })
}

// Resign drops a shard: its calls fail with ErrNotCoordinator.
func (r *Runtime[M]) Resign(shard int32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if h, ok := r.hosts[shard]; ok {
		h.cancel()
		delete(r.hosts, shard)
	}
}

// Shards returns the numbers of the shards that are led, loading or not, in no
// order.
func (r *Runtime[M]) Shards() []int32 {
	r.mu.RLock()
	defer r.mu.RUnlock()
	shards := make([]int32, 0, len(r.hosts))
	for s := range r.hosts {
		shards = append(shards, s)
	}
	return shards
}

// AwaitLoaded waits until the shard's log was replayed, or failed to be. It
// fails if the shard is not led or ctx ends before.
func (r *Runtime[M]) AwaitLoaded(ctx context.Context, shard int32) error {
	r.mu.RLock()
	h, ok := r.hosts[shard]
	r.mu.RUnlock()
	if !ok {
		return ErrNotCoordinator
	}
	select {
	case <-h.loaded:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Submit has the shard's machine answer a call. run gets a turn on the shard's
// goroutine; reply is called exactly once, from any goroutine (possibly within
// Submit), as [Shard.Do] describes, or with ErrNotCoordinator, ErrLoading,
// ErrBusy or the reason why the shard failed. Submit does not wait. Calls
// of one goroutine to one shard are run in their order.
func (r *Runtime[M]) Submit[R any](shard int32, run func(*Turn, M, *Call[R]), reply func(R, error)) {
	if err := r.submit(shard, func(s *Shard[M]) { s.Do(r.cfg.Now(), run, reply) }); err != nil {
		var none R
		reply(none, err)
	}
}

func (r *Runtime[M]) submit(shard int32, do func(*Shard[M])) error {
	// The lock is held while queueing: Resign and Close take it for writing,
	// so what was queued is seen by the host's last look into its queue.
	r.mu.RLock()
	defer r.mu.RUnlock()
	h, ok := r.hosts[shard]
	if !ok {
		return ErrNotCoordinator
	}
	switch state(h.state.Load()) {
	case loading:
		return ErrLoading
	case failed:
		return ErrUnavailable
	}
	select {
	case h.queue <- func() { do(h.core) }:
		return nil
	default:
		return ErrBusy
	}
}

// Close resigns all shards and waits for their goroutines. Calls fail with
// ErrNotCoordinator from then on.
func (r *Runtime[M]) Close() {
	r.mu.Lock()
	r.closed = true
	for s, h := range r.hosts {
		h.cancel()
		delete(r.hosts, s)
	}
	r.mu.Unlock()
	r.alive.Wait()
}

type state int32

const (
	loading state = iota
	active
	failed
)

// host is the goroutine that owns a shard.
type host[M Machine] struct {
	shard  int32
	cfg    *Config[M]
	core   *Shard[M]
	cancel context.CancelFunc
	queue  chan func()
	wake   chan struct{} // holds one token when there is something to deliver
	loaded chan struct{} // closed when loading has ended
	state  atomic.Int32
}

func (h *host[M]) signal() {
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

func (h *host[M]) run(ctx context.Context) {
	defer h.cancel()
	if !h.load(ctx) {
		return
	}
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		h.arm(timer)
		select {
		case <-ctx.Done():
			h.end()
			return
		case do := <-h.queue:
			h.unlessOver(ctx, do)
		case <-h.wake:
			h.unlessOver(ctx, h.core.Deliver)
		case <-timer.C:
			h.unlessOver(ctx, func() { h.core.Expire(h.cfg.Now()) })
		}
	}
}

// unlessOver does something with the shard, or ends it if it was resigned, after
// which its state counts for nothing: records may be in it that were lost.
func (h *host[M]) unlessOver(ctx context.Context, do func()) {
	if ctx.Err() != nil {
		h.core.Abort(ErrNotCoordinator)
	}
	do() // after an abort it only answers
}

// load replays the log. It reports whether the shard is to be served.
func (h *host[M]) load(ctx context.Context) bool {
	defer close(h.loaded)
	began := h.cfg.Now()
	err := h.core.Load(ctx, began)
	switch {
	case err == nil:
		h.state.Store(int32(active))
		h.cfg.Log.Debug("coordinator shard loaded", "shard", h.shard, "took", h.cfg.Now().Sub(began))
		return true
	case errors.Is(err, context.Canceled):
		return false
	default:
		h.state.Store(int32(failed))
		h.cfg.Log.Error("coordinator shard cannot be loaded; it serves nobody until it is led anew", "shard", h.shard, "error", err)
		return false
	}
}

// arm sets the timer to the machine's next deadline. Since Go 1.23 a reset
// timer never delivers an old tick.
func (h *host[M]) arm(timer *time.Timer) {
	at, ok := h.core.NextDeadline()
	if !ok {
		timer.Stop()
		return
	}
	timer.Reset(max(0, at.Sub(h.cfg.Now())))
}

// end fails what is open and what is still queued. Nothing is queued after the
// context ended, since submit no longer finds the host then.
func (h *host[M]) end() {
	h.core.Abort(ErrNotCoordinator)
	for {
		select {
		case do := <-h.queue:
			do() // answered with the reason of the abort
		default:
			return
		}
	}
}
