package connector

import (
	"encoding"
	"errors"
	"fmt"
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
		value := s.values[name]
		if f, ok := s.field(name); (!ok || f.Secret) && value != "" {
			value = "[hidden]"
		}
		fmt.Fprintf(&b, "%s=%q", name, value)
	}
	return b.String()
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
		if problem := s.decodeField(f, v.Field(i)); problem != "" {
			errs = append(errs, Problem{Setting: name, Message: problem})
		}
	}
	return errs
}

// decodeField sets one struct field and returns what is wrong with the
// setting, or "".
func (s Settings) decodeField(f Field, dst reflect.Value) string {
	if f.Type == Map {
		m := make(map[string]string)
		for name, text := range s.values {
			if f.covers(name) {
				m[strings.TrimPrefix(name, f.Name+".")] = text
			}
		}
		assign(f, dst, m)
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
	assign(f, dst, value)
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
func assign(f Field, dst reflect.Value, value any) {
	v := reflect.ValueOf(value)
	_, isDuration := value.(time.Duration)
	fits := dst.Kind() == v.Kind() || v.Kind() == reflect.Int64 && (dst.CanInt() || dst.CanUint()) && !isDuration || v.CanFloat() && dst.CanFloat()
	if !fits || !v.CanConvert(dst.Type()) || !dst.CanSet() {
		panic(fmt.Sprintf("connector: the setting %q is %s, which a field of type %s cannot hold (or it is not exported)", f.Name, f.Type, dst.Type()))
	}
	dst.Set(v.Convert(dst.Type()))
}
