package state_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"pgregory.net/rapid"

	"github.com/millrace/millrace/sdk/serde"
	"github.com/millrace/millrace/streams/state"
	"github.com/millrace/millrace/streams/window"
)

// model is what the stores must hold: maps, copied at commit.
type model struct {
	pairs    map[string]modelValue
	windows  map[windowKey]modelValue
	sessions map[sessionKey]string
	// The latest times that the window and the session store have seen.
	windowTime, sessionTime window.Instant
}

type modelValue struct {
	value string
	at    window.Instant
}

type windowKey struct {
	key   string
	start window.Instant
}

type sessionKey struct {
	key  string
	span window.Span
}

func newModel() model {
	return model{pairs: map[string]modelValue{}, windows: map[windowKey]modelValue{}, sessions: map[sessionKey]string{}}
}

func (m model) clone() model {
	m.pairs, m.windows, m.sessions = maps.Clone(m.pairs), maps.Clone(m.windows), maps.Clone(m.sessions)
	return m
}

const retention = 3 * time.Minute

func (m model) String() string {
	var lines []string
	for k, v := range m.pairs {
		lines = append(lines, fmt.Sprintf("pair %q=%q@%d", k, v.value, v.at))
	}
	for k, v := range m.windows {
		if k.start > m.windowTime.Add(-retention) {
			lines = append(lines, fmt.Sprintf("window %q %d=%q@%d", k.key, k.start, v.value, v.at))
		}
	}
	for k, v := range m.sessions {
		if k.span.End > m.sessionTime.Add(-retention) {
			lines = append(lines, fmt.Sprintf("session %q %d-%d=%q", k.key, k.span.Start, k.span.End, v))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// subject is one implementation under test, and the changelog it wrote.
type subject struct {
	name     string
	fs       vfs.FS
	opts     []state.Option
	stores   *state.Stores
	pairs    state.KeyValueRef[string, string]
	windows  state.WindowRef[string, string]
	sessions state.SessionRef[string, string]
	// changelog holds every captured change in order; committed is its
	// length at the last commit.
	changelog []state.Change
	committed int
}

func newSubject(t *rapid.T, name string, opts ...state.Option) *subject {
	s := &subject{
		name: name, fs: vfs.NewMem(), opts: opts,
		pairs:    state.NewKeyValue("pairs", serde.String, serde.String, opts...),
		windows:  state.NewWindow("windows", serde.String, serde.String, retention, opts...),
		sessions: state.NewSession("sessions", serde.String, serde.String, retention, opts...),
	}
	s.open(t)
	return s
}

func (s *subject) open(t *rapid.T) {
	stores, err := state.Open(state.Config{
		Dir: "task", FS: s.fs,
		Specs: []state.Spec{s.pairs.Spec(), s.windows.Spec(), s.sessions.Spec()},
		Capture: func(c state.Change) error {
			s.changelog = append(s.changelog, state.Change{Store: c.Store, Key: bytes.Clone(c.Key), Value: bytes.Clone(c.Value)})
			return nil
		},
	})
	if err != nil {
		t.Fatalf("%s: opening: %v", s.name, err)
	}
	s.stores = stores
}

func (s *subject) commit(t *rapid.T) {
	s.committed = len(s.changelog)
	at := map[string]state.Position{}
	for _, name := range []string{"pairs", "windows", "sessions"} {
		at[name] = state.Position{Next: int64(s.committed)}
	}
	if err := s.stores.Commit(state.Checkpoint{Changelogs: at}); err != nil {
		t.Fatalf("%s: commit: %v", s.name, err)
	}
}

// show lists everything, as the owner or as an outside reader sees it.
func (s *subject) show(t *rapid.T, committed bool) string {
	var lines []string
	pair := func(k, v string, at window.Instant) bool {
		lines = append(lines, fmt.Sprintf("pair %q=%q@%d", k, v, at))
		return true
	}
	windowed := func(k string, start window.Instant, v string, at window.Instant) bool {
		lines = append(lines, fmt.Sprintf("window %q %d=%q@%d", k, start, v, at))
		return true
	}
	session := func(k string, span window.Span, v string) bool {
		lines = append(lines, fmt.Sprintf("session %q %d-%d=%q", k, span.Start, span.End, v))
		return true
	}
	all := window.Span{Start: 0, End: 1 << 60}
	var errs [3]error
	if committed {
		source := func(string) ([]*state.Stores, error) { return []*state.Stores{s.stores}, nil }
		errs[0] = state.NewReadOnly(source, s.pairs).All(pair)
		errs[1] = state.NewReadOnlyWindow(source, s.windows).All(all, windowed)
		errs[2] = state.NewReadOnlySession(source, s.sessions).All(session)
	} else {
		pairs, windows, sessions := s.views(t)
		errs[0], errs[1], errs[2] = pairs.All(pair), windows.All(all, windowed), sessions.All(session)
	}
	if err := errors.Join(errs[:]...); err != nil {
		t.Fatalf("%s: listing: %v", s.name, err)
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func (s *subject) views(t *rapid.T) (state.KeyValue[string, string], state.Window[string, string], state.Session[string, string]) {
	pairs, err1 := s.pairs.In(s.stores)
	windows, err2 := s.windows.In(s.stores)
	sessions, err3 := s.sessions.In(s.stores)
	if err := errors.Join(err1, err2, err3); err != nil {
		t.Fatalf("%s: %v", s.name, err)
	}
	return pairs, windows, sessions
}

// restart closes the stores and opens them again; those in memory are rebuilt
// from the committed changelog, as the runtime does.
func (s *subject) restart(t *rapid.T, m model) {
	if err := s.stores.Close(); err != nil {
		t.Fatalf("%s: close: %v", s.name, err)
	}
	s.changelog = s.changelog[:s.committed]
	s.open(t)
	for i, c := range s.changelog {
		if int64(i) < s.stores.Checkpoint().Changelogs[c.Store].Next {
			continue
		}
		if err := s.stores.Restore(c.Store, c.Key, c.Value, int64(i)); err != nil {
			t.Fatalf("%s: restore: %v", s.name, err)
		}
	}
	// Advance is not in the changelog; operators repeat it with the next
	// record.
	_, windows, sessions := s.views(t)
	windows.Advance(m.windowTime)
	sessions.Advance(m.sessionTime)
	s.commit(t)
}

// TestStoresAgreeWithAModel runs random operations, commits, drops and
// restarts on Pebble, on memory and on maps: all must agree, for the owner and
// for committed readers, always.
func TestStoresAgreeWithAModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		subjects := []*subject{newSubject(t, "pebble"), newSubject(t, "memory", state.InMemory())}
		committed, pending := newModel(), newModel()
		keys := rapid.SampledFrom([]string{"", "a", "aa", "a\x00", "b", "\xff\xff"})
		times := rapid.Map(rapid.Int64Range(0, 20), func(n int64) window.Instant { return window.Instant(n * 37_000) })
		values := rapid.SampledFrom([]string{"", "x", "yy", "zzz"})
		each := func(t *rapid.T, do func(*subject) error) {
			for _, s := range subjects {
				if err := do(s); err != nil {
					t.Fatalf("%s: %v", s.name, err)
				}
			}
		}
		spans := func(t *rapid.T) window.Span {
			start := times.Draw(t, "start")
			return window.Span{Start: start, End: start + window.Instant(rapid.Int64Range(1, 50_000).Draw(t, "length"))}
		}
		t.Repeat(map[string]func(*rapid.T){
			"": func(t *rapid.T) {
				for _, s := range subjects {
					if got, want := s.show(t, false), pending.String(); got != want {
						t.Fatalf("%s: the owner sees\n%s\nwant\n%s", s.name, got, want)
					}
					if got, want := s.show(t, true), committed.String(); got != want {
						t.Fatalf("%s: readers see\n%s\nwant\n%s", s.name, got, want)
					}
				}
			},
			"put pair": func(t *rapid.T) {
				k, v, at := keys.Draw(t, "key"), values.Draw(t, "value"), times.Draw(t, "at")
				pending.pairs[k] = modelValue{v, at}
				each(t, func(s *subject) error { p, _, _ := s.views(t); return p.Put(k, v, at) })
			},
			"delete pair": func(t *rapid.T) {
				k := keys.Draw(t, "key")
				delete(pending.pairs, k)
				each(t, func(s *subject) error { p, _, _ := s.views(t); return p.Delete(k) })
			},
			"range": func(t *rapid.T) {
				from, end := keys.Draw(t, "from"), keys.Draw(t, "end")
				var want []string
				for k := range pending.pairs {
					if from <= k && k < end {
						want = append(want, k)
					}
				}
				slices.Sort(want)
				each(t, func(s *subject) error {
					var got []string
					p, _, _ := s.views(t)
					err := p.Range(from, end, func(k, _ string, _ window.Instant) bool { got = append(got, k); return true })
					if !slices.Equal(got, want) {
						t.Fatalf("%s: range [%q, %q) gave %q, want %q", s.name, from, end, got, want)
					}
					return err
				})
			},
			"put window": func(t *rapid.T) {
				k, start, v := keys.Draw(t, "key"), times.Draw(t, "start"), values.Draw(t, "value")
				pending.windowTime = max(pending.windowTime, start)
				if start > pending.windowTime.Add(-retention) {
					pending.windows[windowKey{k, start}] = modelValue{v, start + 5}
				}
				each(t, func(s *subject) error { _, w, _ := s.views(t); return w.Put(k, start, v, start+5) })
			},
			"delete window": func(t *rapid.T) {
				k, start := keys.Draw(t, "key"), times.Draw(t, "start")
				pending.windowTime = max(pending.windowTime, start)
				delete(pending.windows, windowKey{k, start})
				each(t, func(s *subject) error { _, w, _ := s.views(t); return w.Delete(k, start) })
			},
			"fetch windows": func(t *rapid.T) {
				k, starts := keys.Draw(t, "key"), spans(t)
				var want []window.Instant
				for w := range pending.windows {
					if w.key == k && starts.Contains(w.start) && w.start > pending.windowTime.Add(-retention) {
						want = append(want, w.start)
					}
				}
				slices.Sort(want)
				each(t, func(s *subject) error {
					var got []window.Instant
					_, w, _ := s.views(t)
					err := w.Fetch(k, starts, func(start window.Instant, _ string, _ window.Instant) bool { got = append(got, start); return true })
					if !slices.Equal(got, want) {
						t.Fatalf("%s: fetch %q %v gave %v, want %v", s.name, k, starts, got, want)
					}
					return err
				})
			},
			"put session": func(t *rapid.T) {
				k, span, v := keys.Draw(t, "key"), spans(t), values.Draw(t, "value")
				pending.sessionTime = max(pending.sessionTime, span.End)
				if span.End > pending.sessionTime.Add(-retention) {
					pending.sessions[sessionKey{k, span}] = v
				}
				each(t, func(s *subject) error { _, _, ss := s.views(t); return ss.Put(k, span, v) })
			},
			"merge sessions": func(t *rapid.T) {
				k, reach := keys.Draw(t, "key"), spans(t)
				var want []window.Span
				for ss := range pending.sessions {
					if ss.key == k && ss.span.Overlaps(reach) && ss.span.End > pending.sessionTime.Add(-retention) {
						want = append(want, ss.span)
						delete(pending.sessions, ss)
						pending.sessionTime = max(pending.sessionTime, ss.span.End)
					}
				}
				slices.SortFunc(want, func(a, b window.Span) int {
					return int(a.End-b.End)*2 + int(max(min(a.Start-b.Start, 1), -1))
				})
				each(t, func(s *subject) error {
					var got []window.Span
					_, _, ss := s.views(t)
					err := ss.Overlapping(k, reach, func(span window.Span, _ string) bool {
						got = append(got, span)
						return ss.Delete(k, span) == nil // writing while reading is allowed
					})
					if !slices.Equal(got, want) {
						t.Fatalf("%s: overlapping %q %v gave %v, want %v", s.name, k, reach, got, want)
					}
					return err
				})
			},
			"advance": func(t *rapid.T) {
				at := times.Draw(t, "at")
				pending.windowTime, pending.sessionTime = max(pending.windowTime, at), max(pending.sessionTime, at)
				each(t, func(s *subject) error { _, w, ss := s.views(t); w.Advance(at); ss.Advance(at); return nil })
			},
			"commit": func(t *rapid.T) {
				committed = pending.clone()
				each(t, func(s *subject) error { s.commit(t); return nil })
			},
			"drop": func(t *rapid.T) {
				pending = committed.clone()
				each(t, func(s *subject) error { s.changelog = s.changelog[:s.committed]; return s.stores.Drop() })
			},
			"restart": func(t *rapid.T) {
				pending = committed.clone()
				each(t, func(s *subject) error { s.restart(t, committed); return nil })
			},
		})
		each(nil, func(s *subject) error { return s.stores.Close() })
	})
}
