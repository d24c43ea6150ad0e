package state

import (
	"sync"

	"github.com/cockroachdb/pebble/v2"
)

const (
	// ownMemoryBytes is what stores get that were opened without a Memory.
	ownMemoryBytes = 8 << 20
	// memoryBytesMin is what a Memory has at least: Pebble's write buffers
	// must fit.
	memoryBytesMin = 4 << 20
	// filesMax is how many table files all databases keep open together.
	filesMax = 500
	// reserveStep is how exactly the size of stores in memory is accounted.
	reserveStep = 256 << 10
)

// Memory bounds what all stores of a process keep in memory: the blocks that
// were read, the write buffers of the databases, and the stores that are in
// memory only. What the latter take, the blocks do without; they alone can
// exceed the bound, since nothing else has their data. See [Memory.Used].
type Memory struct {
	limit int64
	cache *pebble.Cache
	files *pebble.FileCache

	mu        sync.Mutex
	inMemory  int64
	databases int64 // open ones, each with a write buffer
}

// NewMemory makes a bound of so many bytes, at least 4 MiB. Close it after the
// stores that use it.
func NewMemory(bytes int64) *Memory {
	bytes = max(bytes, memoryBytesMin)
	return &Memory{limit: bytes, cache: pebble.NewCache(bytes), files: pebble.NewFileCache(4, filesMax)}
}

// Limit is the bound in bytes.
func (m *Memory) Limit() int64 { return m.limit }

// Used is approximately how many bytes all stores take now: blocks, a write
// buffer for each database, and the stores kept in memory only, inMemory.
func (m *Memory) Used() (total, inMemory int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.cache.Size() + m.databases*int64(m.memTableBytes()) + m.inMemory, m.inMemory
}

// opened counts databases that are opened, or closed if n is negative.
func (m *Memory) opened(n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.databases += n
}

// Close frees the cache. Stores that still use it keep it alive.
func (m *Memory) Close() {
	m.files.Unref()
	m.cache.Unref()
}

// memTableBytes is the write buffer of one database: small against the whole,
// for every task on disk has one or two.
func (m *Memory) memTableBytes() uint64 {
	return uint64(min(max(m.limit/32, 256<<10), 4<<20))
}

// reservation is what one backend took out of the cache.
type reservation struct {
	bytes   int64
	release func()
}

// reserve makes r as large as bytes, in steps.
func (m *Memory) reserve(r *reservation, bytes int64) {
	bytes = (bytes + reserveStep - 1) / reserveStep * reserveStep
	if bytes == r.bytes {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if r.release != nil {
		r.release()
		r.release = nil
	}
	m.inMemory += bytes - r.bytes
	r.bytes = bytes
	if bytes > 0 {
		r.release = m.cache.Reserve(int(bytes))
	}
}
