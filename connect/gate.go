package connect

import (
	"context"
	"sync"
)

// gate holds tasks while their connector is paused. It may be used by any
// number of goroutines.
type gate struct {
	mu sync.Mutex
	// open is closed while the gate is open, and shut while it is shut.
	open, shut chan struct{}
	paused     bool
}

func newGate(paused bool) *gate {
	g := &gate{open: make(chan struct{}), shut: make(chan struct{}), paused: paused}
	if paused {
		close(g.shut)
	} else {
		close(g.open)
	}
	return g
}

// set opens or shuts the gate, and reports whether that changed anything.
func (g *gate) set(paused bool) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.paused == paused {
		return false
	}
	g.paused = paused
	if paused {
		g.open = make(chan struct{})
		close(g.shut)
	} else {
		g.shut = make(chan struct{})
		close(g.open)
	}
	return true
}

func (g *gate) isPaused() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.paused
}

// pass returns at once when the gate is open, and when it opens or ctx ends
// otherwise.
func (g *gate) pass(ctx context.Context) error {
	g.mu.Lock()
	open := g.open
	g.mu.Unlock()
	select {
	case <-open:
		return ctx.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// whileOpen returns a context that ends with ctx, and when the gate is shut.
func (g *gate) whileOpen(ctx context.Context) (context.Context, context.CancelFunc) {
	g.mu.Lock()
	shut := g.shut
	g.mu.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		select {
		case <-shut:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}
