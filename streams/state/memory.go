package state

import (
	"bytes"
	"sync/atomic"

	"github.com/RaduBerinde/btreemap"
)

// memoryBackend keeps one task's stores in a copy-on-write B-tree: committed
// readers have a tree of their own, which is never written to.
type memoryBackend struct {
	memory    *Memory
	pending   *tree
	committed atomic.Pointer[tree]
	changed   int64 // bytes written since the last commit
	size      int64 // bytes of keys and values in pending
	kept      int64 // size at the last commit
	reserved  reservation
}

type tree = btreemap.BTreeMap[[]byte, []byte]

// treeDegree is how many entries the nodes of the tree have, about: a write
// after a commit copies the nodes on its path.
const treeDegree = 32

// entryOverhead is what an entry costs beyond its bytes: two slice headers and
// its share of a node.
const entryOverhead = 64

func newMemoryBackend(m *Memory) *memoryBackend {
	b := &memoryBackend{memory: m, pending: btreemap.New[[]byte, []byte](treeDegree, bytes.Compare)}
	b.committed.Store(b.pending.Clone())
	return b
}

func (b *memoryBackend) get(dst, key []byte, committed bool) ([]byte, bool, error) {
	t := b.pending
	if committed {
		t = b.committed.Load()
	}
	_, v, ok := t.Get(key)
	return append(dst, v...), ok, nil
}

func (b *memoryBackend) set(key, value []byte) error {
	n := int64(len(key) + len(value) + entryOverhead)
	b.changed += n
	b.size += n
	k, v, replaced := b.pending.ReplaceOrInsert(bytes.Clone(key), append([]byte{}, value...))
	if replaced {
		b.size -= int64(len(k) + len(v) + entryOverhead)
	}
	return nil
}

func (b *memoryBackend) delete(key []byte) error {
	k, v, found := b.pending.Delete(key)
	if found {
		b.size -= int64(len(k) + len(v) + entryOverhead)
	}
	b.changed += int64(len(key) + entryOverhead)
	return nil
}

func (b *memoryBackend) deleteRange(from, end []byte) error {
	for k := range b.pending.Clone().Ascend(btreemap.GE(from), btreemap.LT(end)) {
		if err := b.delete(k); err != nil {
			return err
		}
	}
	return nil
}

func (b *memoryBackend) scan(from, end []byte, o scanOptions, visit func(k, v []byte) bool) error {
	var t *tree
	if o.committed {
		t = b.committed.Load()
	} else {
		t = b.pending.Clone() // visit may write
	}
	entries := t.Ascend(btreemap.GE(from), btreemap.LT(end))
	if o.reverse {
		entries = t.Descend(btreemap.LT(end), btreemap.GE(from))
	}
	for k, v := range entries {
		if !visit(k, v) {
			break
		}
	}
	return nil
}

func (b *memoryBackend) commit() error {
	if b.changed == 0 {
		return nil
	}
	b.committed.Store(b.pending.Clone())
	b.kept, b.changed = b.size, 0
	b.memory.reserve(&b.reserved, b.size)
	return nil
}

// drop starts again from the committed tree. Cloning changes of a tree only
// what readers do not look at.
func (b *memoryBackend) drop() error {
	b.pending = b.committed.Load().Clone()
	b.size, b.changed = b.kept, 0
	return nil
}

func (b *memoryBackend) pendingBytes() int64 { return b.changed }

func (b *memoryBackend) close() error {
	b.memory.reserve(&b.reserved, 0)
	return nil
}
