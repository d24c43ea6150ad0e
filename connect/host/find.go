package host

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/millrace/millrace/sdk/connector"
)

// Info is what is known of a plugin without opening it.
type Info struct {
	connector.Manifest
	// Path is the executable of a third-party plugin, and empty for a bundled
	// one.
	Path string
	// Err says why the plugin cannot be used; the manifest then holds its name
	// only.
	Err error
}

// fields returns the settings of the plugin's source or sink.
func (i Info) fields(kind Kind) ([]connector.Field, error) {
	switch {
	case i.Err != nil:
		return nil, i.Err
	case kind == KindSource && i.HasSource:
		return i.Spec.Source, nil
	case kind == KindSink && i.HasSink:
		return i.Spec.Sink, nil
	}
	return nil, fmt.Errorf("plugin %q has no %s", i.Name, kind)
}

// finder knows the plugins. What third-party executables say of themselves is
// kept until they change.
type finder struct {
	bundled []connector.Plugin
	dirs    []string

	mu    sync.Mutex
	cache map[string]cachedManifest // by path
}

type cachedManifest struct {
	size     int64
	modified time.Time
	info     Info
}

const (
	executablePrefix = "millrace-plugin-"
	specTimeout      = 10 * time.Second
)

func newFinder(cfg Config) *finder {
	return &finder{bundled: cfg.Bundled, dirs: cfg.Dirs, cache: make(map[string]cachedManifest)}
}

// Plugins returns all plugins, in the order of their names. It runs those
// executables that it does not know yet with the argument "spec".
func (h *Host) Plugins(ctx context.Context) []Info {
	var all []Info
	for _, name := range h.found.names() {
		all = append(all, h.found.info(ctx, name))
	}
	return all
}

// Plugin returns the plugin of that name. The error wraps ErrUnknownPlugin if
// there is none, and says which there are.
func (h *Host) Plugin(ctx context.Context, name string) (Info, error) {
	names := h.found.names()
	if !slices.Contains(names, name) {
		return Info{}, fmt.Errorf("%w: %q; there are: %s", ErrUnknownPlugin, name, strings.Join(names, ", "))
	}
	info := h.found.info(ctx, name)
	return info, info.Err
}

func (h *Host) commandOf(info Info) []string {
	if info.Path != "" {
		return []string{info.Path}
	}
	return h.command(info.Name)
}

func (f *finder) names() []string {
	var names []string
	for _, p := range f.bundled {
		names = append(names, p.Name)
	}
	for name := range f.executables() {
		names = append(names, name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// executables returns the paths of third-party plugins by their names.
func (f *finder) executables() map[string]string {
	found := make(map[string]string)
	for _, dir := range f.dirs {
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue // as good as empty
		}
		for _, e := range entries {
			name, ok := strings.CutPrefix(strings.TrimSuffix(e.Name(), ".exe"), executablePrefix)
			if !ok || name == "" || found[name] != "" || e.IsDir() {
				continue
			}
			path, err := filepath.Abs(filepath.Join(dir, e.Name()))
			if err == nil {
				found[name] = path
			}
		}
	}
	return found
}

// info returns what is known of a plugin that names listed.
func (f *finder) info(ctx context.Context, name string) Info {
	for _, p := range f.bundled {
		if p.Name == name {
			return Info{Manifest: p.Manifest()}
		}
	}
	path := f.executables()[name]
	stat, err := os.Stat(path)
	if err != nil {
		return Info{Manifest: connector.Manifest{Name: name}, Path: path, Err: fmt.Errorf("looking at plugin %q: %w", name, err)}
	}
	f.mu.Lock()
	known, ok := f.cache[path]
	f.mu.Unlock()
	if ok && known.size == stat.Size() && known.modified.Equal(stat.ModTime()) {
		return known.info
	}
	manifest, err := readSpec(ctx, path, stat)
	if err == nil && manifest.Name != name {
		err = fmt.Errorf("it calls itself %q; the executable must be called %s%s", manifest.Name, executablePrefix, manifest.Name)
	}
	if err != nil {
		return Info{Manifest: connector.Manifest{Name: name}, Path: path, Err: fmt.Errorf("reading the spec of plugin %q by running %s spec: %w", name, path, err)}
	}
	info := Info{Manifest: manifest, Path: path}
	f.mu.Lock()
	f.cache[path] = cachedManifest{size: stat.Size(), modified: stat.ModTime(), info: info}
	f.mu.Unlock()
	return info
}

func readSpec(ctx context.Context, path string, stat fs.FileInfo) (connector.Manifest, error) {
	if !stat.Mode().IsRegular() {
		return connector.Manifest{}, errors.New("it is not a file")
	}
	ctx, cancel := context.WithTimeout(ctx, specTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, "spec")
	cmd.WaitDelay = time.Second
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	switch err := cmd.Run(); {
	case ctx.Err() != nil:
		return connector.Manifest{}, fmt.Errorf("it had not printed its spec and ended in time (main has to call connector.Serve first thing): %w; standard error: %q",
			ctx.Err(), excerpt(bytes.TrimSpace(stderr.Bytes())))
	case err != nil && stderr.Len() > 0:
		return connector.Manifest{}, fmt.Errorf("%w: %s", err, strings.TrimSpace(stderr.String()))
	case err != nil:
		return connector.Manifest{}, err
	}
	manifest, err := connector.ReadManifest(stdout.Bytes())
	if err != nil {
		err = explainSpec(stdout.Bytes(), err)
	}
	return manifest, err
}

// explainSpec says what a plugin printed instead of its manifest, or beside it.
func explainSpec(printed []byte, err error) error {
	text := bytes.TrimSpace(printed)
	if len(text) == 0 {
		return errors.New("it printed nothing: main has to call connector.Serve")
	}
	for begin := range text {
		if text[begin] != '{' {
			continue
		}
		var manifest connector.Manifest
		decoder := json.NewDecoder(bytes.NewReader(text[begin:]))
		if decoder.Decode(&manifest) != nil || manifest.Name == "" {
			continue
		}
		before, after := bytes.TrimSpace(text[:begin]), bytes.TrimSpace(text[begin+int(decoder.InputOffset()):])
		switch {
		case len(before) > 0:
			return fmt.Errorf("it printed %q to standard output before it called connector.Serve, which must come first", excerpt(before))
		case len(after) > 0:
			return fmt.Errorf("it printed %q to standard output after connector.Serve had returned, where only its manifest is expected", excerpt(after))
		}
		return err
	}
	return fmt.Errorf("it printed %q where its manifest was expected: main has to call connector.Serve first thing", excerpt(text))
}

// excerpt is the beginning of what a plugin printed, for a message.
func excerpt(text []byte) string {
	const most = 200
	if len(text) > most {
		return string(text[:most]) + "..."
	}
	return string(text)
}
