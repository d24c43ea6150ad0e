package partition

// Watcher is told when there may be more to read. It watches one partition at
// a time.
type Watcher struct {
	f          func()
	list       *watcherList
	next, prev *Watcher
}

// NewWatcher returns a watcher that calls f. f is called after the high
// watermark or the start of the log moved, leadership began or ended, or the
// partition went away; on the goroutine that did it, without locks held, so it
// must not block. It may be called once more after Unwatch returned, and
// concurrently with itself.
func NewWatcher(f func()) *Watcher { return &Watcher{f: f} }

// Watch adds a watcher that watches nothing yet. To miss nothing, watch first
// and read then.
func (p *Partition) Watch(w *Watcher) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.watchers.add(w)
}

// Unwatch removes the watcher, which may be used again then. Removing one that
// is not there does nothing.
func (p *Partition) Unwatch(w *Watcher) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.watchers.remove(w)
}

// watcherList is a list through the watchers themselves, so that adding and
// removing one costs the same however many there are.
type watcherList struct{ first *Watcher }

func (l *watcherList) add(w *Watcher) {
	if w.list != nil {
		panic("partition: watcher watches already")
	}
	w.list, w.next, w.prev = l, l.first, nil
	if l.first != nil {
		l.first.prev = w
	}
	l.first = w
}

func (l *watcherList) remove(w *Watcher) {
	if w.list != l {
		return
	}
	if w.prev != nil {
		w.prev.next = w.next
	} else {
		l.first = w.next
	}
	if w.next != nil {
		w.next.prev = w.prev
	}
	w.list, w.next, w.prev = nil, nil, nil
}

func (l *watcherList) notify(c *calls) {
	for w := l.first; w != nil; w = w.next {
		c.notify = append(c.notify, w.f)
	}
}
