package connector

import (
	"encoding"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Settings are the values of a connector's settings, with the fields that
// describe them.
type Settings struct {
	fields []Field
	values map[string]string
}

// NewSettings checks values against fields and fills in the defaults. The
// error joins all [Problem]s. Serve makes the settings of real tasks; this is
// for tests that call Open themselves.
func NewSettings(fields []Field, values map[string]string) (Settings, error) {
	if problems := Check(fields, values); len(problems) > 0 {
		errs := make([]error, len(problems))
		for i, p := range problems {
			errs[i] = p
		}
		return Settings{}, errors.Join(errs...)
	}
	filled := maps.Clone(values)
	if filled == nil {
		filled = make(map[string]string)
	}
	for _, f := range fields {
		if _, given := filled[f.Name]; !given && f.Type != Map {
			filled[f.Name] = f.Default
		}
	}
	return Settings{fields: fields, values: filled}, nil
}

// Get returns a setting as text, its default if it was not given, and "" if
// there is no such setting.
func (s Settings) Get(name string) string { return s.values[name] }

// String lists the settings for logs, with secrets hidden.
func (s Settings) String() string {
	var b strings.Builder
	for i, name := range slices.Sorted(maps.Keys(s.values)) {
		if i > 0 {
			b.WriteByte(' ')
		}
		fmt.Fprintf(&b, "%s=%q", name, s.shown(name))
	}
	return b.String()
}

// GoString returns what String does, so that %#v shows no secret either.
func (s Settings) GoString() string { return "connector.Settings{" + s.String() + "}" }

// LogValue returns the settings for a logger, with secrets hidden.
func (s Settings) LogValue() slog.Value {
	var attrs []slog.Attr
	for _, name := range slices.Sorted(maps.Keys(s.values)) {
		attrs = append(attrs, slog.String(name, s.shown(name)))
	}
	return slog.GroupValue(attrs...)
}

// shown returns a setting's value, unless it is secret.
func (s Settings) shown(name string) string {
	value := s.values[name]
	if f, ok := s.field(name); (!ok || f.Secret) && value != "" {
		return "[hidden]"
	}
	return value
}

func (s Settings) field(name string) (Field, bool) {
	i := slices.IndexFunc(s.fields, func(f Field) bool { return f.covers(name) || f.Name == name })
	if i < 0 {
		return Field{}, false
	}
	return s.fields[i], true
}

// Decode sets the fields of the struct that dst points to:
//
//	type config struct {
//		Path    string        `setting:"path"`
//		Timeout time.Duration `setting:"timeout"`
//		Columns []string      `setting:"columns"`
//	}
//
// Struct fields without the tag are left alone, but embedded structs are
// looked into. It fails if a setting's text does not fit, and it panics if the
// struct does not fit the spec, which is a mistake in the program.
func (s Settings) Decode(dst any) error {
	v := reflect.ValueOf(dst)
	if v.Kind() != reflect.Pointer || v.IsNil() || v.Elem().Kind() != reflect.Struct {
		panic(fmt.Sprintf("connector: Settings.Decode needs a pointer to a struct, not a %T", dst))
	}
	return errors.Join(s.decodeStruct(v.Elem())...)
}

func (s Settings) decodeStruct(v reflect.Value) []error {
	var errs []error
	for i := range v.NumField() {
		member := v.Type().Field(i)
		name, tagged := member.Tag.Lookup("setting")
		if !tagged {
			if member.Anonymous && member.Type.Kind() == reflect.Struct {
				errs = append(errs, s.decodeStruct(v.Field(i))...)
			}
			continue
		}
		f, ok := s.field(name)
		if !ok {
			panic(fmt.Sprintf("connector: %s.%s is tagged with the setting %q, which is not in the spec", v.Type(), member.Name, name))
		}
		if !member.IsExported() {
			panic(fmt.Sprintf("connector: %s.%s is tagged with the setting %q, but is not exported, so it cannot be set", v.Type(), member.Name, name))
		}
		if problem := s.decodeField(f, v.Field(i), v.Type().String()+"."+member.Name); problem != "" {
			errs = append(errs, Problem{Setting: name, Message: problem})
		}
	}
	return errs
}

// decodeField sets one struct field, which is called where, and returns what is
// wrong with the setting, or "".
func (s Settings) decodeField(f Field, dst reflect.Value, where string) string {
	if f.Type == Map {
		m := make(map[string]string)
		for name, text := range s.values {
			if f.covers(name) {
				m[strings.TrimPrefix(name, f.Name+".")] = text
			}
		}
		assign(f, dst, m, where)
		return ""
	}
	text := s.values[f.Name]
	if u, ok := dst.Addr().Interface().(encoding.TextUnmarshaler); ok && f.Type == String {
		if text == "" {
			return ""
		}
		if err := u.UnmarshalText([]byte(text)); err != nil {
			return f.quote(text) + err.Error()
		}
		return ""
	}
	value, err := f.parse(text)
	if err != nil {
		return f.quote(text) + err.Error()
	}
	if n, ok := value.(int64); ok && overflows(dst, n) {
		return f.quote(text) + "it is too large or too small"
	}
	assign(f, dst, value, where)
	return ""
}

// overflows reports whether dst is an integer that cannot hold n.
func overflows(dst reflect.Value, n int64) bool {
	switch {
	case dst.CanInt():
		return dst.OverflowInt(n)
	case dst.CanUint():
		return n < 0 || dst.OverflowUint(uint64(n))
	}
	return false
}

// assign sets dst to value, which is one that Field.parse returns or a map. A
// dst that cannot hold the field's type is a mistake in the program.
func assign(f Field, dst reflect.Value, value any, where string) {
	v := reflect.ValueOf(value)
	_, isDuration := value.(time.Duration)
	fits := dst.Kind() == v.Kind() || v.Kind() == reflect.Int64 && (dst.CanInt() || dst.CanUint()) && !isDuration || v.CanFloat() && dst.CanFloat()
	if !fits || !v.CanConvert(dst.Type()) {
		panic(fmt.Sprintf("connector: %s is %s, which cannot hold the setting %q: it is %s", where, dst.Type(), f.Name, f.Type))
	}
	dst.Set(v.Convert(dst.Type()))
}
