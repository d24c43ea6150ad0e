package file

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"time"

	"github.com/millrace/millrace/sdk/connector"
)

// source implements connector.Source.
type source struct {
	now func() time.Time
	log *slog.Logger

	patterns []string // absolute
	follow   bool
	poll     time.Duration
	maxLine  int

	inputs  []*input // in the order in which they were found
	turn    int      // index of the input to read next
	missing []place  // files that are not at hand; the last ones to be noticed come last
	ignored map[string]bool
	mem     arena

	releasedBytes int64 // of inputs that were read and let go
}

func newSource() *source { return &source{now: time.Now, ignored: make(map[string]bool)} }

const (
	// goneQuiet is how long a file that was renamed away or deleted must have
	// been quiet before it is let go. Programs go on writing to a file for a
	// while after it was rotated.
	goneQuiet = 10 * time.Second
	// missingMax bounds the memory of files that are gone.
	missingMax = 10_000
)

// Open implements connector.Source.
func (s *source) Open(_ context.Context, task connector.Task) error {
	var cfg struct {
		Paths  []string      `setting:"paths"`
		Follow bool          `setting:"follow"`
		Poll   time.Duration `setting:"poll.interval"`
		Line   int           `setting:"max.line.bytes"`
	}
	if err := task.Settings.Decode(&cfg); err != nil {
		return err
	}
	patterns, err := absolute(cfg.Paths)
	if err != nil {
		return err
	}
	s.log, s.patterns, s.follow, s.poll, s.maxLine = task.Log, patterns, cfg.Follow, cfg.Poll, cfg.Line
	for partition, position := range task.Resume {
		p, err := parsePlace(partition, position)
		if err != nil {
			return err
		}
		if s.isOurs(p.path) {
			s.missing = append(s.missing, p)
		}
	}
	slices.SortFunc(s.missing, func(a, b place) int { return cmpString(a.filename, b.filename) })
	hadFiles := len(s.missing) > 0
	if err := s.scan(true); err != nil {
		return s.giveUp(err)
	}
	if !s.follow && len(s.inputs) == 0 && !hadFiles {
		return s.giveUp(connector.Problemf("paths", "no file matches %v, and with follow=false none is waited for", s.patterns))
	}
	return nil
}

func (s *source) giveUp(err error) error {
	s.closeAll()
	return err
}

// Read implements connector.Source.
func (s *source) Read(ctx context.Context, out *connector.Batch) error {
	s.mem.reset()
	for {
		for range len(s.inputs) {
			s.turn %= len(s.inputs)
			if err := s.inputs[s.turn].readLines(out, &s.mem, s.maxLine); err != nil {
				return err
			}
			if out.Full() {
				return nil
			}
			s.turn++
		}
		if out.Len() > 0 {
			return nil
		}
		if !s.follow {
			return s.finish(out)
		}
		if err := s.release(out); err != nil {
			return err
		}
		if out.Len() > 0 {
			return nil
		}
		if err := s.wait(ctx); err != nil {
			return err
		}
	}
}

// finish appends last lines that have no line end, and ends the task.
func (s *source) finish(out *connector.Batch) error {
	for _, in := range s.inputs {
		if in.isSuspect {
			return fmt.Errorf("reading %s: it was cut short or written anew meanwhile", in.path)
		}
		if err := in.takeHalfLine(out, &s.mem); err != nil {
			return err
		}
	}
	return io.EOF
}

// release lets go of files that are gone and were quiet for a while.
func (s *source) release(out *connector.Batch) error {
	var kept []*input
	for _, in := range s.inputs {
		if !in.isGone || s.now().Sub(in.quietSince) < goneQuiet {
			kept = append(kept, in)
			continue
		}
		if err := in.takeHalfLine(out, &s.mem); err != nil {
			return err
		}
		s.log.Info("a file that was renamed or deleted has been read to its end", "path", in.path, "bytes", in.place.offset)
		s.releasedBytes += in.place.offset
		s.miss(in.place)
		if err := in.file.Close(); err != nil {
			return fmt.Errorf("closing %s: %w", in.path, err)
		}
	}
	s.inputs = kept
	return nil
}

// wait waits for a while and looks for more to read.
func (s *source) wait(ctx context.Context) error {
	timer := time.NewTimer(s.poll)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	for _, in := range s.inputs {
		old, err := in.look(s.now())
		if err != nil {
			return err
		}
		if old != nil {
			s.log.Info("a file was cut short or written anew, and is read from its beginning", "path", in.path, "was_at", old.offset)
			s.miss(*old) // a copy of what it held may turn up
		}
	}
	return s.scan(false)
}

// miss remembers a place in a file that is no longer at hand.
func (s *source) miss(p place) {
	if p.filename == "" {
		return // nothing was read of it
	}
	s.missing = append(s.missing, p)
	s.missing = s.missing[max(0, len(s.missing)-missingMax):]
}

// Progress implements connector.Progresser.
func (s *source) Progress() connector.Progress {
	p := connector.Progress{Done: s.releasedBytes, Total: s.releasedBytes, Unit: "bytes"}
	for _, in := range s.inputs {
		p.Done += in.place.offset
		p.Total += max(in.info.Size(), in.place.offset)
	}
	return p
}

// Close implements connector.Source.
func (s *source) Close(context.Context) error {
	s.closeAll()
	return nil
}

func (s *source) closeAll() {
	for _, in := range s.inputs {
		_ = in.file.Close() // it was only read
	}
	s.inputs = nil
}

// Split implements connector.Splitter: the paths and patterns are dealt out. A
// pattern's files stay together, as they may be one file's rotated parts.
func (s *source) Split(_ context.Context, settings connector.Settings, most int) ([]map[string]string, error) {
	var cfg struct {
		Paths []string `setting:"paths"`
	}
	if err := settings.Decode(&cfg); err != nil {
		return nil, err
	}
	tasks := make([]map[string]string, min(most, len(cfg.Paths)))
	for i, path := range cfg.Paths {
		t := i % len(tasks)
		if tasks[t] == nil {
			tasks[t] = map[string]string{"paths": path}
		} else {
			tasks[t]["paths"] += "," + path
		}
	}
	return tasks, nil
}
