package file

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/millrace/millrace/sdk/connector"
)

func cmpString(a, b string) int { return strings.Compare(a, b) }

// absolute makes patterns independent of the folder that the process is in.
func absolute(patterns []string) ([]string, error) {
	var all []string
	for _, p := range patterns {
		abs, err := filepath.Abs(p)
		if err != nil {
			return nil, fmt.Errorf("completing the path %q: %w", p, err)
		}
		all = append(all, abs)
	}
	return all, nil
}

// isOurs reports whether a path matches one of the patterns. Other tasks of
// the connector have other patterns.
func (s *source) isOurs(path string) bool {
	return slices.ContainsFunc(s.patterns, func(pattern string) bool {
		ok, _ := filepath.Match(pattern, path) // the patterns were checked
		return ok || pattern == path
	})
}

// scan looks for files: it notices which were renamed and which are gone, and
// begins to read new ones where they were left, or else at their beginning.
func (s *source) scan(isFirst bool) error {
	paths, err := s.list(isFirst)
	if err != nil {
		return err
	}
	for _, in := range s.inputs {
		in.isGone = true
	}
	var found []*input
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil || !info.Mode().IsRegular() {
			continue // gone again, or a folder or pipe
		}
		if known := inputOf(s.inputs, info); known != nil {
			known.path, known.isGone = path, false
			continue
		}
		if inputOf(found, info) != nil {
			continue // a link to it
		}
		in, err := openInput(path, s.now())
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			if !s.follow {
				return err
			}
			s.ignore(path, err)
			continue
		}
		delete(s.ignored, path)
		found = append(found, in)
	}
	s.recognise(found, inodeAndContent)
	if isFirst {
		found = append(found, s.findRenamed()...)
	}
	s.recognise(found, contentOnly)
	slices.SortStableFunc(found, readEarlier)
	s.inputs = append(s.inputs, found...)
	return nil
}

// readEarlier puts a file's rotated parts in their order: what was read in part
// comes first, then what was written to longest ago.
func readEarlier(a, b *input) int {
	if aBegun, bBegun := a.place.filename != "", b.place.filename != ""; aBegun != bBegun {
		if aBegun {
			return -1
		}
		return 1
	}
	return a.info.ModTime().Compare(b.info.ModTime())
}

// list returns the paths that match, each once. A path that is not a pattern
// and is a folder is a mistake in the settings.
func (s *source) list(isFirst bool) ([]string, error) {
	var paths []string
	for _, pattern := range s.patterns {
		matches, err := filepath.Glob(pattern)
		if err != nil {
			return nil, connector.Problemf("paths", "%q: %v", pattern, err)
		}
		if isFirst && len(matches) == 1 && matches[0] == pattern {
			if info, err := os.Stat(pattern); err == nil && info.IsDir() {
				return nil, connector.Problemf("paths", "%q is a folder; for the files in it, write %q", pattern, filepath.Join(pattern, "*"))
			}
		}
		paths = append(paths, matches...)
	}
	slices.Sort(paths)
	return slices.Compact(paths), nil
}

// ignore logs once that a file cannot be read.
func (s *source) ignore(path string, err error) {
	if !s.ignored[path] {
		s.ignored[path] = true
		s.log.Warn("a file cannot be read, and is tried again later", "path", path, "cause", err)
	}
}

// inputOf returns the input that reads the file of info, or nil.
func inputOf(inputs []*input, info fs.FileInfo) *input {
	for _, in := range inputs {
		if os.SameFile(in.info, info) {
			return in
		}
	}
	return nil
}

type recognition int

const (
	// inodeAndContent recognises the same file.
	inodeAndContent recognition = iota
	// contentOnly recognises the copy of a file that is not at hand any more:
	// one that was cut short after copying, or moved between file systems.
	contentOnly
)

// copyBytes is how much must have been read of a file before another is taken
// for its copy. Small files may be alike by chance, and reading one twice is
// better than never.
const copyBytes = 1024

func (how recognition) allows(in *input, p place) bool {
	if how == contentOnly {
		return p.offset >= copyBytes && p.tailSum != 0
	}
	return p.inode == in.place.inode
}

// recognise has new inputs go on where missing files were left.
func (s *source) recognise(found []*input, how recognition) {
	for _, in := range found {
		if in.place.filename != "" {
			continue // it has its place already
		}
		i := slices.IndexFunc(s.missing, func(p place) bool {
			return how.allows(in, p) && p.fits(in.file, in.info.Size())
		})
		if i < 0 {
			continue
		}
		in.resume(s.missing[i])
		s.missing = slices.Delete(s.missing, i, i+1)
		s.log.Info("going on with a file", "path", in.path, "offset", in.place.offset)
	}
}

// findRenamed looks for missing files under other names in their folders:
// those that were rotated while the connector was stopped.
func (s *source) findRenamed() []*input {
	byInode := make(map[uint64]bool)
	folders := make(map[string]bool)
	for _, p := range s.missing {
		if p.inode != 0 {
			byInode[p.inode] = true
			folders[filepath.Dir(p.path)] = true
		}
	}
	var found []*input
	for folder := range folders {
		entries, err := os.ReadDir(folder)
		if err != nil {
			continue // it is gone with its files
		}
		for _, e := range entries {
			info, err := e.Info()
			if err != nil || !info.Mode().IsRegular() || !byInode[inodeOf(info)] || s.isOurs(filepath.Join(folder, e.Name())) {
				continue
			}
			in, err := openInput(filepath.Join(folder, e.Name()), s.now())
			if err != nil {
				continue // as good as gone
			}
			in.isGone = true // to be let go when it is read
			found = append(found, in)
		}
	}
	s.recognise(found, inodeAndContent)
	return slices.DeleteFunc(found, func(in *input) bool {
		if in.place.filename != "" {
			return false
		}
		_ = in.file.Close() // another file with that inode; it was only read
		return true
	})
}
