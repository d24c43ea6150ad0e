package connector

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
)

// Manifest is what a plugin tells about itself without being opened. Hosts
// read it; authors fill in a [Plugin].
type Manifest struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	// HasSource and HasSink say what the plugin offers.
	HasSource bool `json:"has_source"`
	HasSink   bool `json:"has_sink"`
	Spec      Spec `json:"spec"`
}

// Manifest returns the plugin's manifest.
func (p Plugin) Manifest() Manifest {
	return Manifest{Name: p.Name, Version: p.Version, HasSource: p.NewSource != nil, HasSink: p.NewSink != nil, Spec: p.Spec}
}

// WriteManifest writes the plugin's manifest to w as indented JSON. Serve does
// so when the executable is run with the single argument "spec".
func WriteManifest(w io.Writer, p Plugin) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(p.Manifest()); err != nil {
		return fmt.Errorf("writing the manifest of plugin %q: %w", p.Name, err)
	}
	return nil
}

// ReadManifest reads what WriteManifest wrote.
func ReadManifest(text []byte) (Manifest, error) {
	var m Manifest
	if err := json.Unmarshal(text, &m); err != nil {
		return m, fmt.Errorf("reading a plugin's manifest: %w", err)
	}
	if m.Name == "" || !m.HasSource && !m.HasSink {
		return m, errors.New("reading a plugin's manifest: it has no name, or neither source nor sink")
	}
	return m, nil
}

// Check returns what is wrong with the plugin itself, such as a setting whose
// default is not valid. Serve refuses to run with it, and package connectortest
// looks at it.
func (p Plugin) Check() error {
	var errs []error
	if !regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`).MatchString(p.Name) {
		errs = append(errs, fmt.Errorf("its name %q is not made of lower-case letters, digits and dashes", p.Name))
	}
	if p.Version == "" {
		errs = append(errs, errors.New("it has no version"))
	}
	if strings.TrimSpace(p.Spec.Doc) == "" {
		errs = append(errs, errors.New("its Spec has no Doc, which is to say what it does"))
	}
	if p.NewSource == nil && p.NewSink == nil {
		errs = append(errs, errors.New("it has neither a source nor a sink"))
	}
	if p.NewSource == nil && len(p.Spec.Source) > 0 || p.NewSink == nil && len(p.Spec.Sink) > 0 {
		errs = append(errs, errors.New("it has settings for a source or sink that it does not have"))
	}
	errs = append(errs, checkFields("source", p.Spec.Source), checkFields("sink", p.Spec.Sink))
	return errors.Join(errs...)
}

func checkFields(of string, fields []Field) error {
	var errs []error
	seen := make(map[string]bool)
	for _, f := range fields {
		switch {
		case !regexp.MustCompile(`^[a-z0-9]+([._-][a-z0-9]+)*$`).MatchString(f.Name):
			errs = append(errs, fmt.Errorf("%s setting %q: the name is not made of lower-case words joined by dots", of, f.Name))
		case seen[f.Name]:
			errs = append(errs, fmt.Errorf("%s setting %q: it is there twice", of, f.Name))
		case !f.Type.known():
			errs = append(errs, fmt.Errorf("%s setting %q: unknown type %q", of, f.Name, f.Type))
		case strings.TrimSpace(f.Doc) == "":
			errs = append(errs, fmt.Errorf("%s setting %q: it has no doc", of, f.Name))
		case isReserved(f.Name):
			errs = append(errs, fmt.Errorf("%s setting %q: the runtime has a setting of that name, or may come to have it", of, f.Name))
		case f.Min > f.Max && f.hasMax():
			errs = append(errs, fmt.Errorf("%s setting %q: its Min %d is above its Max %d", of, f.Name, f.Min, f.Max))
		case f.hasMin() && !f.Type.isNumeric():
			errs = append(errs, fmt.Errorf("%s setting %q: only numbers have a Min and Max", of, f.Name))
		case f.Required && f.Default != "":
			errs = append(errs, fmt.Errorf("%s setting %q: required settings have no default", of, f.Name))
		case f.Type == Map && f.Default != "":
			errs = append(errs, fmt.Errorf("%s setting %q: maps have no default", of, f.Name))
		case f.Default != "" && f.check(f.Default) != "":
			errs = append(errs, fmt.Errorf("%s setting %q: its default: %s", of, f.Name, f.check(f.Default)))
		}
		seen[f.Name] = true
	}
	return errors.Join(errs...)
}

// isReserved reports whether a setting is the runtime's, by the list in
// [Field].
func isReserved(name string) bool {
	switch name {
	case "name", "topic", "topics":
		return true
	}
	return slices.ContainsFunc([]string{
		"connector.", "tasks.", "key.converter", "value.converter", "header.converter", "topics.", "topic.creation.",
		"errors.", "transforms", "predicates", "producer.override.", "consumer.override.",
	}, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

func (t FieldType) isNumeric() bool {
	return t == Integer || t == Number || t == Size || t == Duration
}

func (t FieldType) known() bool {
	switch t {
	case String, Integer, Number, Boolean, Duration, Size, List, Map:
		return true
	}
	return false
}
