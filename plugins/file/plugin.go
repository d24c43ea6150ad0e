// Package file is the connector for files of lines.
//
// Its source reads files that a program appends to, one record a line, and
// follows them through rotation. Its sink writes records as JSON lines.
// docs/design/file-connector.md says how files are recognised.
package file

import (
	"errors"
	"path/filepath"

	"github.com/millrace/millrace/sdk/connector"
)

// Plugin returns the connector.
func Plugin() connector.Plugin {
	return connector.Plugin{
		Name:    "file",
		Version: "1.0.0",
		Spec: connector.Spec{
			Doc:    "Reads files line by line, and writes records as JSON lines.",
			Source: sourceFields(),
			Sink:   sinkFields(),
		},
		NewSource: func() connector.Source { return newSource() },
		NewSink:   func() connector.Sink { return &sink{} },
	}
}

func sourceFields() []connector.Field {
	return []connector.Field{
		{Name: "paths", Type: connector.List, Required: true, Check: checkPattern,
			Doc: "the files to read, separated by commas: paths, or patterns such as /var/log/nginx/*.log. Files that appear later are read too, from their beginning."},
		{Name: "follow", Type: connector.Boolean, Default: "true",
			Doc: "true waits for more lines and files; false ends the connector at the end of the files that there are."},
		{Name: "poll.interval", Type: connector.Duration, Default: "250ms", Min: 10e6, Max: 3600e9,
			Doc: "how often to look for more when all is read."},
		{Name: "max.line.bytes", Type: connector.Size, Default: "1000000", Min: 1, Max: 100 << 20,
			Doc: "a longer line becomes several records of this size, with keys that tell their places."},
	}
}

func sinkFields() []connector.Field {
	return []connector.Field{
		{Name: "path", Type: connector.String, Required: true,
			Doc: "the folder to write to; it is made if needed. Each topic has a file there, <topic>-<task>.jsonl."},
		{Name: "format", Type: connector.String, Default: "record", Valid: []string{"record", "value"},
			Doc: `"record" writes an object with topic, partition, offset, timestamp, key, value and, if there are any, headers; "value" writes the value alone.`},
		{Name: "rotate.bytes", Type: connector.Size, Default: "0",
			Doc: "a file that has reached this size is put aside as <topic>-<task>.<number>.jsonl, and a new one begun. 0 means never."},
	}
}

// checkPattern checks one item of paths.
func checkPattern(pattern string) error {
	if pattern == "" {
		return errors.New("there is an empty path in the list")
	}
	if _, err := filepath.Match(pattern, ""); err != nil {
		return errors.New("its brackets or backslashes make no pattern")
	}
	return nil
}
