package file

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/millrace/millrace/sdk/connector"
)

// output is one file of JSON lines that is being written.
//
// Beside <stem>.jsonl there is .<name>.state, which says up to where the file
// is good, and which offsets are in it. A batch is appended and synced, then
// the state is replaced: after a crash in between, the file is cut to what the
// state says, and the batch, which comes again, is written once. After a crash
// behind it, the records that come again are recognised by their lines.
type output struct {
	stem        string // path without extension
	rotateBytes int64
	log         *slog.Logger

	file   *os.File
	state  outputState
	recent *recentLines

	lines []byte                    // of the batch, not yet written
	next  map[string]partitionState // what is written of partitions, with the batch

	recognised int // records left out since the last one that was new
}

// outputState is what the state file holds.
type outputState struct {
	// Bytes is the length of the file.
	Bytes int64 `json:"bytes"`
	// Partitions says, by number, what is written of the topic's partitions.
	Partitions map[string]partitionState `json:"partitions"`
}

// partitionState says what is written of a partition.
type partitionState struct {
	// Begin and End are offsets: the records written lie within.
	Begin int64 `json:"begin"`
	End   int64 `json:"end"`
	// Latest is the latest timestamp among them, in milliseconds since 1970.
	Latest int64 `json:"latest"`
}

func (o *output) path() string { return o.stem + ".jsonl" }

func (o *output) statePath() string {
	folder, name := filepath.Split(o.stem)
	return filepath.Join(folder, "."+name+".state")
}

// openOutput opens a file to go on with, or a new one.
func openOutput(stem string, rotateBytes int64, log *slog.Logger) (*output, error) {
	o := &output{stem: stem, rotateBytes: rotateBytes, log: log}
	hasState, err := o.readState()
	if err != nil {
		return nil, err
	}
	o.file, err = os.OpenFile(o.path(), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("opening a file to write: %w", err)
	}
	if err := errors.Join(o.repair(hasState), syncFolder(filepath.Dir(stem))); err != nil {
		return nil, errors.Join(err, o.file.Close())
	}
	if err := o.readRecent(); err != nil {
		return nil, errors.Join(err, o.file.Close())
	}
	return o, nil
}

// readState reads the state file, if there is one.
func (o *output) readState() (found bool, err error) {
	o.state = outputState{Partitions: make(map[string]partitionState)}
	text, err := os.ReadFile(o.statePath())
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &o.state)
	}
	if err != nil {
		return false, fmt.Errorf("reading the state of %s: %w; remove %s to begin without it (records may then be written twice)", o.path(), err, o.statePath())
	}
	return true, nil
}

// repair cuts off what an earlier run left half done.
func (o *output) repair(hasState bool) error {
	info, err := o.file.Stat()
	if err != nil {
		return fmt.Errorf("looking at %s: %w", o.path(), err)
	}
	size := info.Size()
	// A file that is shorter than its state says was put aside just before a
	// crash, or somebody cut or removed it.
	isNews := !hasState || size < o.state.Bytes
	if isNews {
		if o.state.Bytes, err = endOfLastLine(o.file, size); err != nil {
			return fmt.Errorf("looking for the last line of %s: %w", o.path(), err)
		}
	}
	if size > o.state.Bytes {
		o.log.Warn("cutting off what an earlier run left half done", "path", o.path(), "bytes", size-o.state.Bytes)
		if err := o.file.Truncate(o.state.Bytes); err != nil {
			return fmt.Errorf("repairing %s: %w", o.path(), err)
		}
	}
	if isNews {
		return o.writeState()
	}
	return nil
}

// endOfLastLine returns the length of the file without a last line that has no
// end.
func endOfLastLine(f io.ReaderAt, size int64) (int64, error) {
	chunk := make([]byte, 64<<10)
	for end := size; end > 0; {
		begin := max(0, end-int64(len(chunk)))
		part := chunk[:end-begin]
		if _, err := f.ReadAt(part, begin); err != nil && err != io.EOF {
			return 0, err
		}
		if i := strings.LastIndexByte(string(part), '\n'); i >= 0 {
			return begin + int64(i) + 1, nil
		}
		end = begin
	}
	return 0, nil
}

// hasWritten reports whether a record is in the file already: its offset is
// among those written, it is no later than they are, and its line is among the
// last ones. Offsets alone do not tell, as a topic may have been deleted and
// made again.
func (o *output) hasWritten(r *connector.Record, line []byte) bool {
	p, ok := o.state.Partitions[partitionKey(r)]
	if !ok || r.Offset < p.Begin || r.Offset >= p.End || millis(r.Timestamp) > p.Latest || !o.recent.has(line) {
		return false
	}
	o.recognised++
	return true
}

func partitionKey(r *connector.Record) string { return strconv.Itoa(int(r.Partition)) }

// add adds a record's line to what the next commit writes.
func (o *output) add(r *connector.Record, line []byte) {
	if o.recognised > 0 {
		o.log.Info("left out records that were in the file already", "path", o.path(), "records", o.recognised)
		o.recognised = 0
	}
	if o.next == nil {
		o.next = make(map[string]partitionState)
	}
	o.lines = append(o.lines, line...)
	key := partitionKey(r)
	p, ok := o.next[key]
	if !ok {
		p, ok = o.state.Partitions[key]
	}
	if !ok || r.Offset < p.End { // the first, or the topic begins anew, or its user went back
		p = partitionState{Begin: r.Offset, Latest: millis(r.Timestamp)}
	}
	p.End = r.Offset + 1
	p.Latest = max(p.Latest, millis(r.Timestamp))
	o.next[key] = p
}

// commit writes what was added, durably.
func (o *output) commit() error {
	if o.rotateBytes > 0 && o.state.Bytes >= o.rotateBytes {
		if err := o.rotate(); err != nil {
			return err
		}
	}
	lines, next := o.lines, o.next
	o.lines, o.next = nil, nil
	if _, err := o.file.WriteAt(lines, o.state.Bytes); err != nil {
		return o.undo(fmt.Errorf("writing %s: %w", o.path(), err))
	}
	if err := o.file.Sync(); err != nil {
		// Not to be tried again: the second fsync may claim what the first lost.
		return fmt.Errorf("syncing %s: %w", o.path(), err)
	}
	o.recent.add(lines)
	o.state.Bytes += int64(len(lines))
	for key, p := range next {
		o.state.Partitions[key] = p
	}
	return o.writeState()
}

// discard drops what was added and not committed.
func (o *output) discard() { o.lines, o.next = nil, nil }

// undo cuts off a write that failed. A full disk may have room later; after any
// other error the task fails, and the file is repaired when it is opened again.
func (o *output) undo(err error) error {
	if cutErr := o.file.Truncate(o.state.Bytes); cutErr != nil {
		return errors.Join(err, cutErr)
	}
	if errors.Is(err, syscall.ENOSPC) {
		return connector.Retry(err, 5*time.Second)
	}
	return err
}

// rotate puts the file aside and begins a new one.
func (o *output) rotate() error {
	last, err := o.lastAside()
	if err != nil {
		return err
	}
	if err := o.file.Close(); err != nil {
		return fmt.Errorf("closing %s: %w", o.path(), err)
	}
	if err := os.Rename(o.path(), o.asidePath(last+1)); err != nil {
		return fmt.Errorf("putting a full file aside: %w", err)
	}
	if o.file, err = os.OpenFile(o.path(), os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o644); err != nil {
		return fmt.Errorf("beginning a new file: %w", err)
	}
	o.state.Bytes = 0
	if err := syncFolder(filepath.Dir(o.stem)); err != nil {
		return err
	}
	return o.writeState()
}

func (o *output) asidePath(number int) string {
	return fmt.Sprintf("%s.%06d.jsonl", o.stem, number)
}

// lastAside returns the number of the file put aside last, or 0.
func (o *output) lastAside() (int, error) {
	taken, err := filepath.Glob(globQuote(o.stem) + ".*.jsonl")
	if err != nil {
		return 0, fmt.Errorf("looking for files put aside: %w", err)
	}
	last := 0
	for _, path := range taken {
		number := strings.TrimSuffix(strings.TrimPrefix(path, o.stem+"."), ".jsonl")
		if n, err := strconv.Atoi(number); err == nil {
			last = max(last, n)
		}
	}
	return last, nil
}

// globQuote quotes a path for filepath.Glob.
func globQuote(path string) string {
	return strings.NewReplacer(`*`, `\*`, `?`, `\?`, `[`, `\[`, `\`, `\\`).Replace(path)
}

// writeState replaces the state file, durably.
func (o *output) writeState() error {
	text, err := json.Marshal(o.state)
	if err != nil {
		return fmt.Errorf("writing the state of %s: %w", o.path(), err)
	}
	temporary := o.statePath() + ".new"
	if err := writeSynced(temporary, text); err != nil {
		return fmt.Errorf("writing the state of %s: %w", o.path(), err)
	}
	if err := os.Rename(temporary, o.statePath()); err != nil {
		return fmt.Errorf("writing the state of %s: %w", o.path(), err)
	}
	return syncFolder(filepath.Dir(o.stem))
}

func writeSynced(path string, text []byte) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Sync(), f.Close())
}

func syncFolder(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("opening the folder %s: %w", path, err)
	}
	if err := errors.Join(d.Sync(), d.Close()); err != nil {
		return fmt.Errorf("syncing the folder %s: %w", path, err)
	}
	return nil
}

func (o *output) close() error {
	if err := o.file.Close(); err != nil {
		return fmt.Errorf("closing %s: %w", o.path(), err)
	}
	return nil
}
