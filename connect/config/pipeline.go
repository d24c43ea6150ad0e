package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// Pipeline declares topics and the connectors that fill and drain them.
//
//	topics:
//	  access-log:
//	    partitions: 3
//	    settings:
//	      retention.ms: 604800000
//	connectors:
//	  access-log-in:
//	    connector.class: file-source
//	    topic: access-log
//	    paths: /var/log/nginx/access.log
type Pipeline struct {
	Topics     map[string]TopicSpec         `yaml:"topics"`
	Connectors map[string]map[string]string `yaml:"-"`
}

// TopicSpec is how a topic should be.
type TopicSpec struct {
	// Partitions of the topic; 0 takes the broker's default.
	Partitions int32 `yaml:"partitions"`
	// Replication is the number of replicas; 0 takes the broker's default.
	Replication int16 `yaml:"replication-factor"`
	// Settings of the topic, by Kafka's names.
	Settings map[string]string `yaml:"-"`
}

// pipelineFile is the file's shape: settings may be written as any scalar.
type pipelineFile struct {
	Topics     map[string]topicFile         `yaml:"topics"`
	Connectors map[string]map[string]scalar `yaml:"connectors"`
}

type topicFile struct {
	Partitions  int32             `yaml:"partitions"`
	Replication int16             `yaml:"replication-factor"`
	Settings    map[string]scalar `yaml:"settings"`
}

// scalar takes a number, boolean or text as the characters that were written.
type scalar string

// UnmarshalYAML implements the decoder's interface for syntax nodes.
func (s *scalar) UnmarshalYAML(node ast.Node) error {
	switch n := node.(type) {
	case *ast.StringNode:
		*s = scalar(n.Value)
	case *ast.LiteralNode:
		*s = scalar(n.Value.Value)
	case *ast.NullNode:
		*s = ""
	case ast.ScalarNode:
		*s = scalar(n.GetToken().Value)
	default:
		return &yaml.SyntaxError{Message: "a setting must be a text, number or boolean", Token: node.GetToken()}
	}
	return nil
}

// ParsePipeline reads a pipeline file. Errors name the file, the line and the
// column, and show the place; a key that is not known is an error too.
func ParsePipeline(name string, text []byte) (Pipeline, error) {
	if _, err := parser.ParseBytes(text, 0); err != nil {
		return Pipeline{}, placed(name, err)
	}
	var file pipelineFile
	err := yaml.NewDecoder(bytes.NewReader(text), yaml.Strict()).Decode(&file)
	if err != nil && !errors.Is(err, io.EOF) {
		return Pipeline{}, placed(name, err)
	}
	p := Pipeline{Topics: map[string]TopicSpec{}, Connectors: map[string]map[string]string{}}
	for topic, t := range file.Topics {
		p.Topics[topic] = TopicSpec{Partitions: t.Partitions, Replication: t.Replication, Settings: texts(t.Settings)}
	}
	for connector, settings := range file.Connectors {
		if err := CheckName(connector); err != nil {
			return Pipeline{}, fmt.Errorf("%s: connector %q: %w", name, connector, err)
		}
		p.Connectors[connector] = texts(settings)
		p.Connectors[connector][Name] = connector
	}
	return p, nil
}

// ParseSettings reads a file that is one flat map of settings. Errors are as
// those of [ParsePipeline].
func ParseSettings(name string, text []byte) (map[string]string, error) {
	var settings map[string]scalar
	err := yaml.NewDecoder(bytes.NewReader(text), yaml.Strict()).Decode(&settings)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, placed(name, err)
	}
	return texts(settings), nil
}

func texts(settings map[string]scalar) map[string]string {
	out := make(map[string]string, len(settings)+1)
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		out[name] = string(settings[name])
	}
	return out
}

// placed puts "file:line:column" in front of what the YAML library says.
func placed(file string, err error) error {
	var at yaml.Error
	if !errors.As(err, &at) || at.GetToken() == nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	pos := at.GetToken().Position
	_, excerpt, _ := strings.Cut(yaml.FormatError(err, false, true), "\n") // the first line says the same
	return fmt.Errorf("%s:%d:%d: %s\n%s", file, pos.Line, pos.Column, at.GetMessage(), strings.TrimRight(excerpt, "\n"))
}
