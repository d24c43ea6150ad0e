package storage

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"

	"github.com/millrace/millrace/broker/internal/disk"
	"github.com/millrace/millrace/broker/internal/ident"
)

// epochStart says where a leader's epoch begins.
type epochStart struct {
	epoch ident.LeaderEpoch
	start ident.Offset
}

// epochCache knows which leader epochs the log holds and where each begins.
// Epochs and starts both increase. Followers find by it where their log parted
// from the leader's (KIP-101).
type epochCache struct {
	mu      sync.RWMutex
	entries []epochStart
	dirty   bool // the file lacks a change
}

// latest returns the last entry's epoch.
func (c *epochCache) latest() ident.LeaderEpoch {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.latestLocked()
}

func (c *epochCache) latestLocked() ident.LeaderEpoch {
	if n := len(c.entries); n > 0 {
		return c.entries[n-1].epoch
	}
	return ident.NoLeaderEpoch
}

// assign records that epoch begins at start, if it is above the latest.
// Epochs that would begin there or later had no records, and go.
func (c *epochCache) assign(epoch ident.LeaderEpoch, start ident.Offset) {
	if epoch == c.latest() {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if epoch <= c.latestLocked() {
		return
	}
	c.truncateLocked(start)
	c.entries = append(c.entries, epochStart{epoch, start})
	c.dirty = true
}

// truncate removes the epochs that begin at or after end.
func (c *epochCache) truncate(end ident.Offset) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.truncateLocked(end)
}

func (c *epochCache) truncateLocked(end ident.Offset) {
	n := sort.Search(len(c.entries), func(i int) bool { return c.entries[i].start >= end })
	if n < len(c.entries) {
		c.entries = c.entries[:n]
		c.dirty = true
	}
}

// advance forgets the epochs that end at or before start; the one that holds
// start begins there from now on.
func (c *epochCache) advance(start ident.Offset) {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := c.floor(start)
	if i < 0 || (i == 0 && c.entries[0].start == start) {
		return
	}
	c.entries = slices.Clone(c.entries[i:])
	c.entries[0].start = start
	c.dirty = true
}

// floor returns the index of the last entry that begins at or before o, or -1.
func (c *epochCache) floor(o ident.Offset) int {
	return sort.Search(len(c.entries), func(i int) bool { return c.entries[i].start > o }) - 1
}

// at returns the epoch that holds offset o.
func (c *epochCache) at(o ident.Offset) ident.LeaderEpoch {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if i := c.floor(o); i >= 0 {
		return c.entries[i].epoch
	}
	return ident.NoLeaderEpoch
}

// end answers where epoch ended, as LeaderEpochFileCache of Kafka does: the
// latest epoch ends with the log; one that is larger than all others is
// unknown; any other ends where the next larger one begins. The epoch returned
// is the largest not above the one asked for, or that itself when all that are
// known are larger.
func (c *epochCache) end(epoch ident.LeaderEpoch, logEnd ident.Offset) (ident.LeaderEpoch, ident.Offset) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if epoch == ident.NoLeaderEpoch || len(c.entries) == 0 {
		return ident.NoLeaderEpoch, ident.NoOffset
	}
	if epoch == c.latestLocked() {
		return epoch, logEnd
	}
	next := sort.Search(len(c.entries), func(i int) bool { return c.entries[i].epoch > epoch })
	switch next {
	case len(c.entries):
		return ident.NoLeaderEpoch, ident.NoOffset
	case 0:
		return epoch, c.entries[0].start
	}
	return c.entries[next-1].epoch, c.entries[next].start
}

const epochFileName = "leader-epoch-checkpoint"

// load reads the cache's file. known is false when there is none or it is not
// sound, with the cause; the log's batches have to be asked then.
func (c *epochCache) load(fsys disk.FS, dir string) (known bool, cause, err error) {
	b, err := readFile(fsys, path.Join(dir, epochFileName))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil, nil
	}
	if err != nil {
		return false, nil, fmt.Errorf("reading leader epochs: %w", err)
	}
	entries, err := parseEpochs(b)
	if err != nil {
		return false, err, nil
	}
	c.entries = entries
	return true, nil, nil
}

// store writes the file if it lacks a change, and makes it durable.
func (c *epochCache) store(fsys disk.FS, dir string) error {
	c.mu.Lock()
	if !c.dirty {
		c.mu.Unlock()
		return nil
	}
	b := formatEpochs(c.entries)
	c.dirty = false
	c.mu.Unlock()
	if err := replaceFile(fsys, dir, epochFileName, b); err != nil {
		c.mu.Lock()
		c.dirty = true
		c.mu.Unlock()
		return fmt.Errorf("writing leader epochs: %w", err)
	}
	return nil
}

// formatEpochs returns the file's text: version 0, the count, and a line for
// each epoch with its start.
func formatEpochs(entries []epochStart) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "0\n%d\n", len(entries))
	for _, e := range entries {
		fmt.Fprintf(&b, "%d %d\n", e.epoch, e.start)
	}
	return b.Bytes()
}

// parseEpochs is the inverse of formatEpochs.
func parseEpochs(b []byte) ([]epochStart, error) {
	lines := strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
	if len(lines) < 2 {
		return nil, errors.New("file is cut short")
	}
	if lines[0] != "0" {
		return nil, fmt.Errorf("line 1: version is %q, want 0", lines[0])
	}
	if n, err := strconv.Atoi(lines[1]); err != nil || n != len(lines)-2 {
		return nil, fmt.Errorf("line 2: count is %q, but %d lines follow", lines[1], len(lines)-2)
	}
	entries := make([]epochStart, 0, len(lines)-2)
	last := epochStart{ident.NoLeaderEpoch, ident.NoOffset}
	for i, line := range lines[2:] {
		epoch, start, ok := strings.Cut(line, " ")
		e, errE := strconv.ParseInt(epoch, 10, 32)
		s, errS := strconv.ParseInt(start, 10, 64)
		next := epochStart{ident.LeaderEpoch(e), ident.Offset(s)}
		if !ok || errE != nil || errS != nil || next.epoch <= last.epoch || next.start <= last.start {
			return nil, fmt.Errorf("line %d: %q is not an epoch and offset that follow %d %d", i+3, line, last.epoch, last.start)
		}
		entries = append(entries, next)
		last = next
	}
	return entries, nil
}
