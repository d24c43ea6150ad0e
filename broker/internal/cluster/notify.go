package cluster

import (
	"context"
	"sync"
)

// notifier hands images to subscribers, on one goroutine.
type notifier struct {
	latest func() *Image
	wake   chan struct{} // has room for one: there is a newer image
	stop   chan struct{}
	done   chan struct{}

	calling sync.Mutex // held while subscribers are called, and to change who they are
	subs    []*subscription

	mu    sync.Mutex
	index uint64        // all subscribers have seen the image of this index
	moved chan struct{} // closed and replaced when index grows
}

type subscription struct {
	f    func(old, new *Image)
	seen *Image
}

func newNotifier(latest func() *Image) *notifier {
	return &notifier{
		latest: latest, wake: make(chan struct{}, 1),
		stop: make(chan struct{}), done: make(chan struct{}), moved: make(chan struct{}),
	}
}

// changed says that there is a newer image. It never blocks.
func (n *notifier) changed() {
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

// run hands out images until close.
func (n *notifier) run() {
	defer close(n.done)
	for {
		select {
		case <-n.wake:
			n.deliver()
		case <-n.stop:
			return
		}
	}
}

func (n *notifier) deliver() {
	n.calling.Lock()
	defer n.calling.Unlock()
	image := n.latest()
	for _, s := range n.subs {
		s.show(image)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.index = image.index
	close(n.moved)
	n.moved = make(chan struct{})
}

func (s *subscription) show(image *Image) {
	if s.seen != image {
		s.f(s.seen, image)
		s.seen = image
	}
}

// subscribe adds a subscriber, which has seen the newest image on return.
func (n *notifier) subscribe(f func(old, new *Image)) (cancel func()) {
	n.calling.Lock()
	defer n.calling.Unlock()
	s := &subscription{f: f, seen: new(Image)}
	s.show(n.latest())
	n.subs = append(n.subs, s)
	return func() {
		n.calling.Lock()
		defer n.calling.Unlock()
		for i, other := range n.subs {
			if other == s {
				n.subs = append(n.subs[:i:i], n.subs[i+1:]...)
				return
			}
		}
	}
}

// wait returns when all subscribers have seen the change of that index.
func (n *notifier) wait(ctx context.Context, index uint64) error {
	for {
		n.mu.Lock()
		seen, moved := n.index, n.moved
		n.mu.Unlock()
		if seen >= index {
			return nil
		}
		select {
		case <-moved:
		case <-n.done:
			return ErrClosed
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// close ends run and waits for it.
func (n *notifier) close() {
	close(n.stop)
	<-n.done
}
