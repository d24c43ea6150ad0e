package serde

import (
	"bytes"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"
)

// check encodes v behind a prefix, compares the bytes if they are given, and decodes them.
func check[T any](t *testing.T, s Serde[T], v T, want string) {
	t.Helper()
	b, err := s.Append([]byte("prefix"), v)
	if err != nil {
		t.Fatalf("%T %v: %v", v, v, err)
	}
	enc, ok := bytes.CutPrefix(b, []byte("prefix"))
	if !ok || string(enc) != want {
		t.Errorf("%T %v is written %q, want %q behind the prefix", v, v, b, want)
	}
	got, err := s.Decode(enc)
	for i := range enc {
		enc[i] = 'x' // Decode must not have kept it
	}
	if err != nil || !reflect.DeepEqual(got, v) {
		t.Errorf("%T %v came back as %v, %v", v, v, got, err)
	}
}

func TestPlainSerdesWriteWhatKafkaWrites(t *testing.T) {
	check(t, String, "grüße\xff", "grüße\xff")
	check(t, String, "", "")
	check(t, Bytes, []byte{0, 1}, "\x00\x01")
	check(t, Bytes, []byte{}, "")
	check(t, Int64, 258, "\x00\x00\x00\x00\x00\x00\x01\x02")
	check(t, Int64, -1, "\xff\xff\xff\xff\xff\xff\xff\xff")
	check(t, Int64, math.MinInt64, "\x80\x00\x00\x00\x00\x00\x00\x00")
	check(t, Int32, -2, "\xff\xff\xff\xfe")
	check(t, Float64, 1.5, "\x3f\xf8\x00\x00\x00\x00\x00\x00")
	check(t, Float64, math.Inf(-1), "\xff\xf0\x00\x00\x00\x00\x00\x00")
	check(t, Bool, true, "\x01")
	check(t, Bool, false, "\x00")
	check(t, Time, time.Unix(1, 2).UTC(), "\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x02")
	check(t, Time, time.Unix(-2, 999).UTC(), "\xff\xff\xff\xff\xff\xff\xff\xfe\x00\x00\x03\xe7")
	check(t, Time, time.Unix(-1<<40, 0).UTC(), "\xff\xff\xff\x00\x00\x00\x00\x00\x00\x00\x00\x00")
}

// obvious checks the default serde of T.
func obvious[T any](t *testing.T, v T, want string) {
	t.Helper()
	s, ok := Default[T]()
	if !ok {
		t.Fatalf("%T has no default serde", v)
	}
	check(t, s, v, want)
}

func TestDefaultsOfObviousTypes(t *testing.T) {
	obvious(t, "a", "a")
	obvious(t, []byte("a"), "a")
	obvious(t, int(-1), "\xff\xff\xff\xff\xff\xff\xff\xff")
	obvious(t, int8(-1), "\xff")
	obvious(t, int16(-2), "\xff\xfe")
	obvious(t, int32(3), "\x00\x00\x00\x03")
	obvious(t, int64(3), "\x00\x00\x00\x00\x00\x00\x00\x03")
	obvious(t, uint(math.MaxUint64), "\xff\xff\xff\xff\xff\xff\xff\xff")
	obvious(t, uint8(255), "\xff")
	obvious(t, uint16(255), "\x00\xff")
	obvious(t, uint32(1<<31), "\x80\x00\x00\x00")
	obvious(t, uint64(1<<63), "\x80\x00\x00\x00\x00\x00\x00\x00")
	obvious(t, float32(1.5), "\x3f\xc0\x00\x00")
	obvious(t, 1.5, "\x3f\xf8\x00\x00\x00\x00\x00\x00")
	obvious(t, true, "\x01")
	obvious(t, time.Unix(0, 0).UTC(), strings.Repeat("\x00", 12))
}

type name string

func TestNamedTypesHaveNoDefault(t *testing.T) {
	if _, ok := Default[name](); ok {
		t.Error("a named string has a default serde")
	}
	if _, ok := Default[struct{}](); ok {
		t.Error("a struct has a default serde")
	}
	if _, ok := Default[any](); ok {
		t.Error("any has a default serde")
	}
}

func TestBadBytesAreErrors(t *testing.T) {
	for what, err := range map[string]error{
		"short integer": second(Int64.Decode([]byte{1})),
		"long integer":  second(Int32.Decode(make([]byte, 5))),
		"short float":   second(Float64.Decode(nil)),
		"bool of 2":     second(Bool.Decode([]byte{2})),
		"empty bool":    second(Bool.Decode(nil)),
		"time":          second(Time.Decode(make([]byte, 11))),
		"nanoseconds":   second(Time.Decode([]byte("\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff"))),
		"JSON":          second(JSON[point]().Decode([]byte(`{"X":"one"}`))),
		"two values":    second(JSON[point]().Decode([]byte(`{} {}`))),
	} {
		if err == nil {
			t.Errorf("%s: no error", what)
		}
	}
}

func second[T any](_ T, err error) error { return err }

type point struct {
	X int `json:"x"`
	F float64
}

func TestJSON(t *testing.T) {
	check(t, JSON[point](), point{1, 2.5}, `{"x":1,"F":2.5}`)
	check(t, JSON[[]string](), []string{"a"}, `["a"]`)
	if p, err := JSON[point]().Decode([]byte(`{"x":1,"new":true}`)); err != nil || p.X != 1 {
		t.Errorf("a field that was added: %v, %v", p, err)
	}
	if _, err := JSON[point]().Append(nil, point{F: math.NaN()}); err == nil {
		t.Error("NaN was written as JSON")
	}
}

// topical writes its topic before the value.
type topical struct{ topic string }

func (s topical) Append(dst []byte, v string) ([]byte, error) { return append(dst, s.topic+v...), nil }
func (s topical) Decode(src []byte) (string, error) {
	return strings.TrimPrefix(string(src), s.topic), nil
}
func (s topical) For(topic string, part Part) Serde[string] {
	return topical{topic + "/" + part.String() + ":"}
}

func TestBindersAreBound(t *testing.T) {
	check(t, Bind[string](topical{}, "views", Key), "v", "views/key:v")
	check(t, Bind[string](topical{}, "views", Value), "v", "views/value:v")
	check(t, Bind(String, "views", Value), "v", "v")
}

func TestPlainSerdesDoNotAllocate(t *testing.T) {
	buf := make([]byte, 0, 64)
	n := testing.AllocsPerRun(100, func() {
		b, _ := Int64.Append(buf, 7)
		v, _ := Int64.Decode(b)
		b, _ = Float64.Append(buf, float64(v))
		f, _ := Float64.Decode(b)
		b, _ = Bool.Append(buf, f > 0)
		Bool.Decode(b)
		String.Append(buf, "text")
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// FuzzDecode decodes anything with everything: what is accepted is written back the same.
func FuzzDecode(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{1})
	f.Add([]byte("\x00\x00\x00\x01"))
	f.Add([]byte("\x7f\xf0\x00\x00\x00\x00\x00\x01"))
	f.Add([]byte("\x80\x00\x00\x00\x00\x00\x00\x00\x3b\x9a\xc9\xff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		again(t, String, b)
		again(t, Bytes, b)
		again(t, Int64, b)
		again(t, Int32, b)
		again(t, Float64, b)
		again(t, Bool, b)
		again(t, Time, b)
		JSON[point]().Decode(b)
	})
}

func again[T any](t *testing.T, s Serde[T], b []byte) {
	v, err := s.Decode(b)
	if err != nil {
		return
	}
	if out, err := s.Append(nil, v); err != nil || !bytes.Equal(out, b) {
		t.Errorf("%x was read as %v and written as %x, %v", b, v, out, err)
	}
}
