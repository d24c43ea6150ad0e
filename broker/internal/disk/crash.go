package disk

import (
	"maps"
	"slices"
	"time"
)

// sectorSize is what a disk writes whole, in bytes.
const sectorSize = 512

// Pick chooses one of n outcomes, in [0, n). Where the choice is between
// losing and keeping, 0 loses the most and n-1 keeps the most. The IntN method
// of a seeded [math/rand/v2.Rand] is a Pick.
type Pick func(n int) int

// LoseAll picks the disk on which nothing unsynced survives.
func LoseAll(int) int { return 0 }

// KeepAll picks the disk on which everything survives, as when a process is
// killed and the machine runs on.
func KeepAll(n int) int { return n - 1 }

// Crash ends this file system: all its methods and files fail with
// [ErrCrashed] from now on. It returns the disk as found after the crash.
// There, each unsynced change of a folder happened or did not, in any
// combination; of each file's unsynced bytes, each sector of 512 bytes was
// written or was not, and the size is anything between the old and the new.
func (m *Memory) Crash(pick Pick) *Memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dead = true
	for _, c := range m.pending {
		if pick(2) == 1 {
			c.apply()
		}
	}
	after := NewMemory(m.now)
	after.root = survive(m.root, pick, m.now())
	return after
}

// survive copies what is durably reachable from n, and decides what became of
// each file. It goes by name, so that equal picks give equal disks.
func survive(n *node, pick Pick, now time.Time) *node {
	if !n.dir {
		return &node{data: n.data.survive(pick)}
	}
	dir := newDir(now)
	dir.modified = n.modified
	for _, name := range slices.Sorted(maps.Keys(n.durable)) {
		child := survive(n.durable[name], pick, now)
		dir.entries[name], dir.durable[name] = child, child
	}
	return dir
}

func (c *content) survive(pick Pick) *content {
	c.mu.RLock()
	defer c.mu.RUnlock()
	var b []byte
	switch pick(3) {
	case 0:
		b = slices.Clone(c.durable)
	case 2:
		b = slices.Clone(c.live)
	default:
		b = c.tear(pick)
	}
	return &content{live: b, durable: slices.Clone(b), low: len(b), modified: c.modified}
}

// tear returns a mixture of what was synced and what was written since.
func (c *content) tear(pick Pick) []byte {
	oldSize, newSize := len(c.durable), len(c.live)
	size := newSize
	switch pick(3) {
	case 0:
		size = oldSize
	case 1:
		size = min(oldSize, newSize) + pick(max(oldSize, newSize)-min(oldSize, newSize)+1)
	}
	b := resize(slices.Clone(c.durable), size)
	for _, e := range c.dirty.list {
		for from := e.from; from < min(e.end, size); {
			end := min(from-from%sectorSize+sectorSize, e.end, size)
			switch pick(3) {
			case 1:
				if from >= c.low {
					// The old bytes were given up by a truncation, and the
					// new ones did not arrive.
					clear(b[from:end])
				}
			case 2:
				copy(b[from:end], c.live[from:end])
			}
			from = end
		}
	}
	return b
}
