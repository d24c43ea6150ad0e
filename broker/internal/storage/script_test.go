package storage

import (
	"errors"
	"fmt"
	"math"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/millrace/millrace/broker/internal/batch"
	"github.com/millrace/millrace/broker/internal/disk"
	"github.com/millrace/millrace/broker/internal/ident"
)

// TestScripts runs the scripts in testdata: commands on a log in memory with
// what they answer. go test -run Scripts -rewrite writes the answers anew.
//
// Sizes are those of batches of records "k0: value" and so on; offsets of a
// script are small. Times are in seconds from the script's beginning.
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/scripts", func(t *testing.T, file string) {
		m := memory()
		s := &script{world: newWorld(t, m), disk: m, faults: disk.WithFaults(m)}
		s.cfg.FS = s.faults
		s.cfg.LowerRecoveryPoint = func(o ident.Offset) error {
			fmt.Fprintf(&s.out, "recovery point lowered to %d\n", o)
			return nil
		}
		s.cfg.Rolled = func(base ident.Offset) { fmt.Fprintf(&s.out, "rolled at %d\n", base) }
		datadriven.RunTest(t, file, s.run)
	})
}

type script struct {
	*world
	disk   *disk.Memory
	faults *disk.Faults
	out    strings.Builder
}

func (s *script) run(t *testing.T, d *datadriven.TestData) string {
	s.t = t
	s.out.Reset()
	command, known := commands()[d.Cmd]
	if !known {
		d.Fatalf(t, "no such command")
	}
	if err := command(s, d); err != nil {
		fmt.Fprintf(&s.out, "error: %v\n", err)
	}
	if s.out.Len() == 0 {
		return "ok\n"
	}
	return s.out.String()
}

// number returns the argument of that name, or otherwise.
func number(d *datadriven.TestData, name string, otherwise int64) int64 {
	for _, a := range d.CmdArgs {
		if a.Key == name {
			var n int64
			if _, err := fmt.Sscan(a.Vals[0], &n); err != nil {
				panic(fmt.Sprintf("%s: argument %s: %v", d.Pos, name, err))
			}
			return n
		}
	}
	return otherwise
}

func offset(d *datadriven.TestData, name string, otherwise ident.Offset) ident.Offset {
	return ident.Offset(number(d, name, int64(otherwise)))
}

func text(d *datadriven.TestData, name string) string {
	for _, a := range d.CmdArgs {
		if a.Key == name {
			return a.Vals[0]
		}
	}
	return ""
}

func commands() map[string]func(*script, *datadriven.TestData) error {
	return map[string]func(*script, *datadriven.TestData) error{
		"open": (*script).cmdOpen, "close": (*script).cmdClose, "crash": (*script).cmdCrash, "set": (*script).cmdSet,
		"append": (*script).cmdAppend, "follow": (*script).cmdFollow, "flush": (*script).cmdFlush, "roll": (*script).cmdRoll,
		"truncate": (*script).cmdTruncate, "advance": (*script).cmdAdvance, "retain": (*script).cmdRetain,
		"read": (*script).cmdRead, "time": (*script).cmdTime, "epochs": (*script).cmdEpochs,
		"state": (*script).cmdState, "ls": (*script).cmdList, "damage": (*script).cmdDamage, "faults": (*script).cmdFaults,
	}
}

// cmdSet changes settings: of the open log, and of those opened later.
func (s *script) cmdSet(d *datadriven.TestData) error {
	set := &s.cfg.Settings
	set.SegmentBytes = number(d, "segment", set.SegmentBytes)
	set.SegmentAge = time.Duration(number(d, "segment-seconds", int64(set.SegmentAge/time.Second))) * time.Second
	set.IndexInterval = int(number(d, "interval", int64(set.IndexInterval)))
	set.IndexBytes = int(number(d, "index", int64(set.IndexBytes)))
	set.RetentionBytes = number(d, "retention-bytes", set.RetentionBytes)
	if n := number(d, "retention-seconds", math.MinInt64); n != math.MinInt64 {
		set.RetentionAge = time.Duration(n) * time.Second
	}
	set.Delete = number(d, "delete", 1) != 0
	if s.log != nil {
		s.log.SetSettings(*set)
	}
	return nil
}

func (s *script) cmdOpen(d *datadriven.TestData) error {
	s.cfg.RecoveryPoint = offset(d, "recovery-point", 0)
	s.cfg.Start = offset(d, "start", 0)
	s.cfg.Clean = d.HasArg("clean")
	l, r, err := Open(s.cfg)
	s.report(r)
	if err != nil {
		return err
	}
	s.log = l
	return nil
}

// report prints what a recovery did.
func (s *script) report(r Recovered) {
	if r.SegmentsRead > 0 {
		fmt.Fprintf(&s.out, "read %d segments", r.SegmentsRead)
		if r.IndexesRebuilt > 0 {
			fmt.Fprintf(&s.out, ", rebuilt the indexes of %d", r.IndexesRebuilt)
		}
		s.out.WriteByte('\n')
	}
	if r.CutCause != nil {
		fmt.Fprintf(&s.out, "cut %d bytes: %v\n", r.CutBytes, r.CutCause)
	}
	for _, name := range r.Kept {
		fmt.Fprintf(&s.out, "kept %s\n", path.Base(name))
	}
}

func (s *script) cmdClose(*datadriven.TestData) error { return s.log.Close() }

// cmdCrash loses all that is not synced, or with "kill" nothing.
func (s *script) cmdCrash(d *datadriven.TestData) error {
	pick := disk.LoseAll
	if d.HasArg("kill") {
		pick = disk.KeepAll
	}
	s.disk = s.disk.Crash(pick)
	s.faults = disk.WithFaults(s.disk)
	s.cfg.FS = s.faults
	return nil
}

// batch makes a batch of n records a millisecond apart.
func (s *script) batch(d *datadriven.TestData, second int64) batch.View {
	times := make([]int64, number(d, "records", 1))
	for i := range times {
		times[i] = second*1000 + int64(i)
	}
	return s.records(batch.None, strings.Repeat("v", int(number(d, "size", 5))), times...)
}

func (s *script) cmdAppend(d *datadriven.TestData) error {
	for i := range number(d, "batches", 1) {
		v := s.batch(d, number(d, "at", 0)+i)
		a, err := s.log.AppendAsLeader(v, ident.LeaderEpoch(number(d, "epoch", 0)))
		if err != nil {
			return err
		}
		fmt.Fprintf(&s.out, "[%d, %d) %d bytes\n", a.Base, a.End, a.Bytes)
	}
	return nil
}

// cmdFollow appends as a follower a batch for each pair "offset epoch" of the
// input.
func (s *script) cmdFollow(d *datadriven.TestData) error {
	var all []byte
	for line := range strings.Lines(d.Input) {
		var o ident.Offset
		var e ident.LeaderEpoch
		if _, err := fmt.Sscan(line, &o, &e); err != nil {
			return err
		}
		v := s.batch(d, number(d, "at", 0))
		v.SetBaseOffset(o)
		v.SetLeaderEpoch(e)
		all = append(all, v...)
	}
	if at := number(d, "flip", -1); at >= 0 {
		all[at] ^= 1
	}
	a, err := s.log.AppendAsFollower(all)
	if err != nil {
		return err
	}
	fmt.Fprintf(&s.out, "[%d, %d) %d bytes\n", a.Base, a.End, a.Bytes)
	return nil
}

func (s *script) cmdFlush(*datadriven.TestData) error {
	end, err := s.log.Flush()
	fmt.Fprintf(&s.out, "flushed to %d\n", end)
	return err
}

func (s *script) cmdRoll(*datadriven.TestData) error { return s.log.Roll() }

func (s *script) cmdTruncate(d *datadriven.TestData) error {
	return s.log.TruncateTail(offset(d, "to", 0))
}

func (s *script) cmdAdvance(d *datadriven.TestData) error {
	return s.log.AdvanceStart(offset(d, "to", 0))
}

func (s *script) cmdRetain(d *datadriven.TestData) error {
	now := s.now.Add(time.Duration(number(d, "at", 0)) * time.Second)
	r, err := s.log.ApplyRetention(now, offset(d, "bound", s.log.End()))
	fmt.Fprintf(&s.out, "deleted %d segments, %d bytes; the log starts at %d\n", r.Segments, r.Bytes, r.Start)
	return err
}

// cmdRead prints the batches of one read.
func (s *script) cmdRead(d *datadriven.TestData) error {
	c, err := s.log.Read(offset(d, "from", 0), offset(d, "end", math.MaxInt64), int(number(d, "max", 1<<20)), d.HasArg("at-least-one"))
	if err != nil {
		return err
	}
	defer c.Close()
	b, err := c.Append(nil)
	if err != nil {
		return err
	}
	if len(b) == 0 {
		s.out.WriteString("nothing\n")
	}
	for len(b) > 0 {
		v, rest, err := batch.Next(b)
		if err != nil {
			return err
		}
		fmt.Fprintf(&s.out, "[%d, %d) epoch %d, %d bytes\n", v.BaseOffset(), v.NextOffset(), v.LeaderEpoch(), v.Size())
		b = rest
	}
	return nil
}

// cmdTime looks up a time in milliseconds from the beginning, or the highest.
func (s *script) cmdTime(d *datadriven.TestData) error {
	stamp, ok, err := Stamp{}, false, error(nil)
	if d.HasArg("max") {
		stamp, ok, err = s.log.MaxTimestamp()
	} else {
		stamp, ok, err = s.log.OffsetForTime(epochMs + number(d, "ms", 0))
	}
	if err != nil {
		return err
	}
	if !ok {
		s.out.WriteString("none\n")
		return nil
	}
	fmt.Fprintf(&s.out, "offset %d at %d ms, epoch %d\n", stamp.Offset, stamp.Timestamp-epochMs, stamp.Epoch)
	return nil
}

// cmdEpochs assigns an epoch, or asks where those of the input end, or at
// which an offset lies.
func (s *script) cmdEpochs(d *datadriven.TestData) error {
	if d.HasArg("assign") {
		s.log.AssignEpoch(ident.LeaderEpoch(number(d, "assign", 0)))
	}
	fmt.Fprintf(&s.out, "latest %d\n", s.log.LatestEpoch())
	for line := range strings.Lines(d.Input) {
		var e ident.LeaderEpoch
		if _, err := fmt.Sscan(line, &e); err != nil {
			return err
		}
		found, end := s.log.EpochEnd(e)
		fmt.Fprintf(&s.out, "%d: epoch %d ends at %d\n", e, found, end)
	}
	if d.HasArg("at") {
		fmt.Fprintf(&s.out, "epoch %d\n", s.log.EpochAt(offset(d, "at", 0)))
	}
	return nil
}

func (s *script) cmdState(*datadriven.TestData) error {
	fmt.Fprintf(&s.out, "start %d, flushed %d, end %d, %d bytes\n", s.log.Start(), s.log.FlushedEnd(), s.log.End(), s.log.Size())
	for _, seg := range s.log.segments {
		fmt.Fprintf(&s.out, "segment %d: %d bytes\n", seg.base, seg.size.Load())
	}
	return nil
}

func (s *script) cmdList(*datadriven.TestData) error {
	infos, err := s.cfg.FS.ReadDir(testDir)
	for _, info := range infos {
		fmt.Fprintf(&s.out, "%s %d\n", info.Name(), info.Size())
	}
	return err
}

// cmdDamage changes a file behind the log's back.
func (s *script) cmdDamage(d *datadriven.TestData) error {
	name := path.Join(testDir, text(d, "file"))
	if d.HasArg("remove") {
		return s.cfg.FS.Remove(name)
	}
	f, err := s.cfg.FS.OpenWrite(name)
	if err != nil {
		return err
	}
	size, err := f.Size()
	if err != nil {
		return err
	}
	b := make([]byte, 1)
	switch {
	case d.HasArg("flip"):
		at := number(d, "flip", 0)
		if _, err = f.ReadAt(b, at); err == nil {
			b[0] ^= 0x10
			_, err = f.WriteAt(b, at)
		}
	case d.HasArg("size"):
		err = f.Truncate(number(d, "size", 0))
	case d.HasArg("zeros"):
		err = f.Truncate(size + number(d, "zeros", 0))
	case d.HasArg("text"):
		if err = f.Truncate(0); err == nil {
			_, err = f.WriteAt([]byte(d.Input), 0)
		}
	}
	return errors.Join(err, f.Close())
}

// cmdFaults sets what the disk refuses from now on.
func (s *script) cmdFaults(d *datadriven.TestData) error {
	s.faults.SetSpace(number(d, "space", -1))
	name := text(d, "fail-sync")
	s.faults.FailSync(func(p string) bool { return name != "" && strings.HasSuffix(p, name) })
	return nil
}
