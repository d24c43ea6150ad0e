package logs

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/millrace/millrace/broker/internal/disk"
	"github.com/millrace/millrace/broker/internal/ident"
	"github.com/millrace/millrace/broker/internal/partition"
)

// The checkpoint files, with Kafka's names and format
// (docs/format/data-folder.md).
const (
	recoveryPointName = "recovery-point-offset-checkpoint"
	logStartName      = "log-start-offset-checkpoint"
	highWatermarkName = "replication-offset-checkpoint"

	checkpointVersion = 0
)

// offsets is the content of a checkpoint file.
type offsets map[ident.TopicPartition]ident.Offset

func (o offsets) encode() []byte {
	names := make([]ident.TopicPartition, 0, len(o))
	for tp := range o {
		names = append(names, tp)
	}
	slices.SortFunc(names, comparePartitions)
	var b bytes.Buffer
	fmt.Fprintf(&b, "%d\n%d\n", checkpointVersion, len(o))
	for _, tp := range names {
		fmt.Fprintf(&b, "%s %d %d\n", tp.Topic, tp.Partition, o[tp])
	}
	return b.Bytes()
}

func comparePartitions(a, b ident.TopicPartition) int {
	return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
}

// decodeOffsets reads a checkpoint file.
func decodeOffsets(file string, b []byte) (offsets, error) {
	lines := bufio.NewScanner(bytes.NewReader(b))
	var head [2]int
	at := 0
	next := func() bool { at++; return lines.Scan() }
	for i, what := range []string{"version", "count"} {
		if !next() {
			return nil, &MetaError{File: file, Line: at, Err: fmt.Errorf("%s is missing", what)}
		}
		n, err := strconv.Atoi(lines.Text())
		if err != nil || n < 0 {
			return nil, &MetaError{File: file, Line: at, Err: fmt.Errorf("%s is %.40q, not a number", what, lines.Text())}
		}
		head[i] = n
	}
	if head[0] != checkpointVersion {
		return nil, &FormatError{File: file, Version: head[0], Known: checkpointVersion}
	}
	out := make(offsets)
	for next() {
		tp, o, err := parseOffset(lines.Text())
		if err != nil {
			return nil, &MetaError{File: file, Line: at, Err: err}
		}
		out[tp] = o
	}
	if err := lines.Err(); err != nil {
		return nil, &MetaError{File: file, Line: at, Err: err}
	}
	if len(out) != head[1] {
		return nil, &MetaError{File: file, Err: fmt.Errorf("it has %d entries instead of %d", len(out), head[1])}
	}
	return out, nil
}

func parseOffset(line string) (ident.TopicPartition, ident.Offset, error) {
	fields := strings.Fields(line)
	if len(fields) != 3 {
		return ident.TopicPartition{}, 0, fmt.Errorf("expected topic, partition and offset, found %.40q", line)
	}
	number, err := strconv.ParseInt(fields[1], 10, 32)
	if err != nil || number < 0 {
		return ident.TopicPartition{}, 0, fmt.Errorf("%.40q is not a partition", fields[1])
	}
	o, err := strconv.ParseInt(fields[2], 10, 64)
	if err != nil || o < 0 {
		return ident.TopicPartition{}, 0, fmt.Errorf("%.40q is not an offset", fields[2])
	}
	return ident.TopicPartition{Topic: fields[0], Partition: int32(number)}, ident.Offset(o), nil
}

// readOffsets reads a checkpoint file; a missing one is empty.
func readOffsets(files disk.FS, dir, name string) (offsets, error) {
	b, err := readFile(files, dir+"/"+name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return decodeOffsets(dir+"/"+name, b)
}

// checkpoints writes the three files.
type checkpoints struct {
	fs  disk.FS
	dir string
	log *slog.Logger
	// gather returns the present values of all partitions.
	gather func() map[ident.TopicPartition]partition.Checkpoint

	requests atomic.Int64 // counts calls of write

	mu      sync.Mutex
	covered int64 // requests that began before the last write
	err     error // of the last write
	written map[string][]byte
	known   map[ident.TopicPartition]bool // partitions in the files
}

// load reads what the last run wrote. Recovery points and high watermarks only
// save work, and are done without if they cannot be read. A start cannot: records
// that were deleted would come back.
func (c *checkpoints) load() (map[ident.TopicPartition]partition.Checkpoint, error) {
	starts, err := readOffsets(c.fs, c.dir, logStartName)
	if err != nil {
		return nil, remedied(err, "put it back from a backup, or remove it: then records come back that were deleted and whose segments are still there")
	}
	recoveryPoints, err := c.readExpendable(recoveryPointName)
	if err != nil {
		return nil, err
	}
	highWatermarks, err := c.readExpendable(highWatermarkName)
	if err != nil {
		return nil, err
	}
	out := make(map[ident.TopicPartition]partition.Checkpoint)
	c.known = make(map[ident.TopicPartition]bool)
	for _, o := range []offsets{starts, recoveryPoints, highWatermarks} {
		for tp := range o {
			c.known[tp] = true
			out[tp] = partition.Checkpoint{Start: starts[tp], RecoveryPoint: recoveryPoints[tp], HighWatermark: highWatermarks[tp]}
		}
	}
	return out, nil
}

// readExpendable is readOffsets for a file that may be damaged.
func (c *checkpoints) readExpendable(name string) (offsets, error) {
	o, err := readOffsets(c.fs, c.dir, name)
	if _, damaged := errors.AsType[*MetaError](err); damaged {
		c.log.Warn("a checkpoint is damaged and is done without: all logs are checked from their beginning", "cause", err)
		return nil, nil
	}
	return o, err
}

// write makes values durable that are at least as new as the call. Calls that
// wait for each other share a write.
func (c *checkpoints) write() error {
	ticket := c.requests.Add(1)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.covered >= ticket {
		return c.err
	}
	c.covered = c.requests.Load()
	c.err = c.writeFiles(c.gather())
	return c.err
}

// forget makes sure that the files do not speak of tp, which is about to begin
// anew and must not be taken for the older partition of that name.
func (c *checkpoints) forget(tp ident.TopicPartition) error {
	c.mu.Lock()
	known := c.known[tp]
	c.mu.Unlock()
	if !known {
		return nil
	}
	return c.write()
}

// writeFiles replaces the files that changed. The lock is held.
func (c *checkpoints) writeFiles(all map[ident.TopicPartition]partition.Checkpoint) error {
	starts, recoveryPoints, highWatermarks := make(offsets), make(offsets), make(offsets)
	known := make(map[ident.TopicPartition]bool, len(all))
	for tp, p := range all {
		starts[tp], recoveryPoints[tp], highWatermarks[tp] = p.Start, p.RecoveryPoint, p.HighWatermark
		known[tp] = true
	}
	for _, f := range []struct {
		name string
		o    offsets
	}{{recoveryPointName, recoveryPoints}, {logStartName, starts}, {highWatermarkName, highWatermarks}} {
		b := f.o.encode()
		if bytes.Equal(c.written[f.name], b) {
			continue
		}
		if err := replaceFile(c.fs, c.dir, f.name, b); err != nil {
			return fmt.Errorf("writing checkpoints: %w", err)
		}
		c.written[f.name] = b
	}
	c.known = known
	return nil
}
