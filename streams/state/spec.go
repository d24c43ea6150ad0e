package state

import (
	"errors"
	"fmt"
	"maps"
	"time"
)

// Kind says how the keys of a store are made up, and with that, how its
// entries expire.
type Kind int8

// The kinds of stores. Their numbers are on disk (docs/format/state-store.md).
const (
	KindKeyValue Kind = 1
	KindWindow   Kind = 2
	KindSession  Kind = 3
)

func (k Kind) String() string {
	switch k {
	case KindKeyValue:
		return "key-value"
	case KindWindow:
		return "window"
	case KindSession:
		return "session"
	}
	return fmt.Sprintf("kind %d", int8(k))
}

// Spec describes a store without its types: all that the runtime needs to
// open it and to make its changelog topic.
type Spec struct {
	// Name is unique in a topology: 1 to 200 of the characters that a topic
	// may have (letters, digits, '.', '_', '-').
	Name string
	Kind Kind
	// Retention is how far, in stream time, an entry of a window or session
	// store may lie behind before it is forgotten: at least the window (or
	// the inactivity gap) and its grace together. Zero for key-value stores.
	Retention time.Duration
	// InMemory keeps the store out of the task's folder. It is faster, and
	// is restored from its changelog at each start.
	InMemory bool
	// Unlogged stores have no changelog: their content is lost with their
	// folder, or at each start if they are in memory.
	Unlogged bool
	// ChangelogConfig holds settings for the changelog topic, by Kafka's
	// names, that override the runtime's.
	ChangelogConfig map[string]string
}

// Option changes how a store is kept. Options apply to every kind of store.
type Option struct{ apply func(*Spec) }

// InMemory keeps a store in memory only. See [Spec.InMemory].
func InMemory() Option { return Option{func(s *Spec) { s.InMemory = true }} }

// Unlogged gives a store no changelog topic. See [Spec.Unlogged].
func Unlogged() Option { return Option{func(s *Spec) { s.Unlogged = true }} }

// ChangelogSetting overrides one setting of the store's changelog topic, by
// Kafka's name, such as "min.compaction.lag.ms".
func ChangelogSetting(name, value string) Option {
	return Option{func(s *Spec) {
		config := maps.Clone(s.ChangelogConfig)
		if config == nil {
			config = map[string]string{}
		}
		config[name] = value
		s.ChangelogConfig = config
	}}
}

func newSpec(name string, kind Kind, retention time.Duration, opts []Option) Spec {
	spec := Spec{Name: name, Kind: kind, Retention: retention}
	for _, o := range opts {
		if o.apply != nil {
			o.apply(&spec)
		}
	}
	return spec
}

// nameLengthMax leaves room for the application id and "-changelog" in the
// 249 characters of a topic name.
const nameLengthMax = 200

// Validate reports everything that is wrong with a spec, joined.
func (s Spec) Validate() error {
	var errs []error
	if err := validName(s.Name); err != nil {
		errs = append(errs, err)
	}
	switch s.Kind {
	case KindKeyValue:
		if s.Retention != 0 {
			errs = append(errs, fmt.Errorf("store %q: a key-value store has no retention, but %v was given", s.Name, s.Retention))
		}
	case KindWindow, KindSession:
		if s.Retention < time.Millisecond {
			errs = append(errs, fmt.Errorf("store %q: retention %v is below a millisecond: it must cover window and grace", s.Name, s.Retention))
		}
	default:
		errs = append(errs, fmt.Errorf("store %q: %v is not known", s.Name, s.Kind))
	}
	return errors.Join(errs...)
}

func validName(name string) error {
	if name == "" || len(name) > nameLengthMax {
		return fmt.Errorf("store name %q: must have 1 to %d characters", name, nameLengthMax)
	}
	for _, c := range []byte(name) {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !letter && (c < '0' || c > '9') && c != '.' && c != '_' && c != '-' {
			return fmt.Errorf("store name %q: %q is not allowed: use letters, digits, '.', '_' and '-'", name, c)
		}
	}
	return nil
}
