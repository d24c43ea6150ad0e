package connector

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
)

func fieldsUnderTest() []Field {
	return []Field{
		{Name: "path", Type: String, Required: true, Doc: "d"},
		{Name: "count", Type: Integer, Default: "5", Min: 1, Max: 10, Doc: "d"},
		{Name: "ratio", Type: Number, Min: 0, Max: 1, Doc: "d"},
		{Name: "follow", Type: Boolean, Default: "true", Doc: "d"},
		{Name: "wait", Type: Duration, Default: "1m30s", Max: int64(time.Hour), Doc: "d"},
		{Name: "size", Type: Size, Default: "64KiB", Doc: "d"},
		{Name: "columns", Type: List, Valid: []string{"a", "b"}, Doc: "d"},
		{Name: "password", Type: String, Secret: true, Doc: "d", Check: func(text string) error {
			if len(text) < 4 {
				return errors.New("too short")
			}
			return nil
		}},
		{Name: "options", Type: Map, Secret: true, Doc: "d"},
	}
}

func TestSettingsAreCheckedAgainstTheirFields(t *testing.T) {
	for _, c := range []struct {
		name     string
		settings map[string]string
		want     []string
	}{
		{"all is well", map[string]string{"path": "x", "count": "10", "ratio": "0.5", "wait": "90000", "size": "10MB", "columns": "a, b", "password": "long enough", "options.x": "1"}, nil},
		{"a required one is missing", nil, []string{"path: required, but not given"}},
		{"an unknown one", map[string]string{"path": "x", "folow": "true"}, []string{`folow: unknown setting; did you mean "follow"?`}},
		{"one like no other", map[string]string{"path": "x", "zzzzzz": "1"}, []string{"zzzzzz: unknown setting"}},
		{"not a number", map[string]string{"path": "x", "count": "ten"}, []string{`count: "ten": it should be a whole number`}},
		{"out of range", map[string]string{"path": "x", "count": "11", "ratio": "NaN", "wait": "2h"}, []string{
			`count: "11": it should be from 1 to 10`, `ratio: "NaN": it should be from 0 to 1`, `wait: "2h": it should be from 0s to 1h0m0s`}},
		{"neither true nor false", map[string]string{"path": "x", "follow": "yes"}, []string{`follow: "yes": it should be true or false`}},
		{"bad durations and sizes", map[string]string{"path": "x", "wait": "soon", "size": "-1KiB"}, []string{
			`wait: "soon": it should be a duration such as "1m30s" or a number of milliseconds`,
			`size: "-1KiB": it should be a size such as 1048576, 64KiB or 10MB`}},
		{"a list with a wrong item", map[string]string{"path": "x", "columns": "a,c"}, []string{`columns: "c": it is none of a, b`}},
		{"a secret is not quoted", map[string]string{"path": "x", "password": "abc"}, []string{"password: too short"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			for _, p := range Check(fieldsUnderTest(), c.settings) {
				got = append(got, p.Error())
			}
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("problems are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
		})
	}
}

func TestSettingsDecodeIntoAStruct(t *testing.T) {
	settings, err := NewSettings(fieldsUnderTest(), map[string]string{
		"path": "x", "ratio": "0.25", "columns": "b,a", "password": "hush-hush", "options.x.y": "1", "options.z": ""})
	if err != nil {
		t.Fatal(err)
	}
	type common struct {
		Path string `setting:"path"`
	}
	type name string
	var cfg struct {
		common
		Count    int               `setting:"count"`
		Ratio    float64           `setting:"ratio"`
		Follow   bool              `setting:"follow"`
		Wait     time.Duration     `setting:"wait"`
		Size     uint32            `setting:"size"`
		Columns  []string          `setting:"columns"`
		Password name              `setting:"password"`
		Options  map[string]string `setting:"options"`
		untagged int
	}
	if err := settings.Decode(&cfg); err != nil {
		t.Fatal(err)
	}
	if cfg.Path != "x" || cfg.Count != 5 || cfg.Ratio != 0.25 || !cfg.Follow || cfg.Wait != 90*time.Second || cfg.Size != 65536 ||
		!reflect.DeepEqual(cfg.Columns, []string{"b", "a"}) || cfg.Password != "hush-hush" ||
		!reflect.DeepEqual(cfg.Options, map[string]string{"x.y": "1", "z": ""}) || cfg.untagged != 0 {
		t.Errorf("decoded %+v", cfg)
	}
	if text := settings.String(); strings.Contains(text, "hush") || strings.Contains(text, `options.x.y="1"`) || !strings.Contains(text, `count="5"`) {
		t.Errorf("the settings show as %s", text)
	}

	var small struct {
		Size int8 `setting:"size"`
	}
	if err := settings.Decode(&small); len(Problems(err)) != 1 {
		t.Errorf("64KiB in an int8: %v", err)
	}
}

func TestStructThatDoesNotFitTheSpecPanics(t *testing.T) {
	settings, err := NewSettings(fieldsUnderTest(), map[string]string{"path": "x"})
	if err != nil {
		t.Fatal(err)
	}
	var cfgUnknown struct {
		X string `setting:"no.such"`
	}
	var cfgWrongType struct {
		Wait int `setting:"wait"`
	}
	var cfgUnexported struct {
		path string `setting:"path"`
	}
	_ = cfgUnexported.path
	for _, dst := range []any{&cfgUnknown, &cfgWrongType, &cfgUnexported, cfgUnknown, nil} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("decoding into %T did not panic", dst)
				}
			}()
			_ = settings.Decode(dst)
		}()
	}
}

func TestPluginsAreCheckedThemselves(t *testing.T) {
	source := func() Source { return nil }
	for _, c := range []struct {
		name   string
		plugin Plugin
		want   []string
	}{
		{"a good one", Plugin{Name: "a-1", Version: "1", NewSource: source, Spec: Spec{Doc: "d", Source: fieldsUnderTest()}}, nil},
		{"all is missing", Plugin{Name: "A b"}, []string{`its name "A b" is not made of lower-case`, "it has no version", "its Spec has no Doc", "neither a source nor a sink"}},
		{"settings for nothing", Plugin{Name: "a", Version: "1", NewSource: source, Spec: Spec{Doc: "d", Sink: fieldsUnderTest()}}, []string{"does not have"}},
		{"twice", Plugin{Name: "a", Version: "1", NewSource: source, Spec: Spec{Doc: "d", Source: []Field{{Name: "n", Type: Integer, Doc: "d"}, {Name: "n", Type: String, Doc: "d"}}}}, []string{"twice"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := c.plugin.Check()
			if len(c.want) == 0 && err != nil {
				t.Errorf("it is refused: %v", err)
			}
			for _, want := range c.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("error is %v, want %q in it", err, want)
				}
			}
		})
	}
}

func TestManifestReadsBack(t *testing.T) {
	p := Plugin{Name: "a", Version: "1", NewSource: func() Source { return nil }, Spec: Spec{Doc: "d <&>", Source: fieldsUnderTest()}}
	var text strings.Builder
	if err := WriteManifest(&text, p); err != nil {
		t.Fatal(err)
	}
	got, err := ReadManifest([]byte(text.String()))
	if err != nil {
		t.Fatal(err)
	}
	want := p.Manifest()
	for i := range want.Spec.Source {
		want.Spec.Source[i].Check = nil // code does not travel
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("read %+v, want %+v", got, want)
	}
}

func TestProblemsAreFoundInWrappedErrors(t *testing.T) {
	a, b := Problemf("a", "x %d", 1), Problemf("b", "y")
	err := errors.Join(errors.New("other"), errors.Join(a, errors.Join(b)))
	if got := Problems(err); len(got) != 2 || got[0] != a || got[1] != b {
		t.Errorf("problems are %v", got)
	}
	if got := Problems(errors.New("x")); got != nil {
		t.Errorf("problems are %v", got)
	}
}

func TestBoundsMayBeOpenAbove(t *testing.T) {
	for _, c := range []struct {
		min, max   int64
		good, bad  []string
		wantSuffix string
	}{
		{1, 0, []string{"1", "1000000"}, []string{"0", "-1"}, "it should be at least 1"},
		{1, 3, []string{"1", "3"}, []string{"0", "4"}, "it should be from 1 to 3"},
		{0, 3, []string{"0", "3"}, []string{"-1", "4"}, "it should be from 0 to 3"},
		{-5, 0, []string{"-5", "0"}, []string{"-6", "1"}, "it should be from -5 to 0"},
		{0, 0, []string{"-5", "5"}, nil, ""},
	} {
		for _, typ := range []FieldType{Integer, Number} {
			fields := []Field{{Name: "n", Type: typ, Min: c.min, Max: c.max}}
			for _, text := range c.good {
				if problems := Check(fields, map[string]string{"n": text}); problems != nil {
					t.Errorf("%s from %d to %d refuses %s: %v", typ, c.min, c.max, text, problems)
				}
			}
			for _, text := range c.bad {
				problems := Check(fields, map[string]string{"n": text})
				if len(problems) != 1 || !strings.HasSuffix(problems[0].Message, c.wantSuffix) {
					t.Errorf("%s from %d to %d says of %s: %v", typ, c.min, c.max, text, problems)
				}
			}
		}
	}
}

func TestFieldsThatAreNotWellFormedAreRefused(t *testing.T) {
	for want, field := range map[string]Field{
		"the name is not made of":             {Name: "Upper", Type: String, Doc: "d"},
		"the runtime has a setting":           {Name: "errors.tolerance", Type: String, Doc: "d"},
		"its Min 5 is above its Max 3":        {Name: "n", Type: Integer, Doc: "d", Min: 5, Max: 3},
		"its Min 0 is above its Max -3":       {Name: "n", Type: Integer, Doc: "d", Max: -3},
		"only numbers have a Min and Max":     {Name: "n", Type: String, Doc: "d", Max: 3},
		"it has no doc":                       {Name: "n", Type: String},
		"required settings have no default":   {Name: "n", Type: String, Doc: "d", Required: true, Default: "x"},
		"its default: \"0\": it should be at": {Name: "n", Type: Integer, Doc: "d", Min: 1, Default: "0"},
		"unknown type \"text\"":               {Name: "n", Type: "text", Doc: "d"},
	} {
		p := Plugin{Name: "p", Version: "1", Spec: Spec{Doc: "d", Source: []Field{field}}, NewSource: func() Source { return nil }}
		if err := p.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: got %v, want %q", field, err, want)
		}
	}
}

func TestDecodeIntoTheWrongFieldNamesIt(t *testing.T) {
	settings, err := NewSettings(fieldsUnderTest(), map[string]string{"path": "x"})
	if err != nil {
		t.Fatal(err)
	}
	type config struct {
		Count string `setting:"count"`
	}
	type hiding struct {
		count int `setting:"count"`
	}
	for want, dst := range map[string]any{
		"connector.config.Count is string, which cannot hold the setting \"count\"": new(config),
		"connector.hiding.count is tagged":                                          &hiding{count: 1},
	} {
		func() {
			defer func() {
				if text := fmt.Sprint(recover()); !strings.Contains(text, want) {
					t.Errorf("it panicked with %q, want %q", text, want)
				}
			}()
			_ = settings.Decode(dst)
		}()
	}
}
