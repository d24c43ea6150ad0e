package file

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/millrace/millrace/sdk/connector"
)

// sink implements connector.Sink.
type sink struct {
	log         *slog.Logger
	folder      string
	task        int
	asRecords   bool
	rotateBytes int64
	files       map[string]*output // by topic
	line        []byte             // of the record at hand
}

// Open implements connector.Sink.
func (s *sink) Open(_ context.Context, task connector.Task) error {
	var cfg struct {
		Path   string `setting:"path"`
		Format string `setting:"format"`
		Rotate int64  `setting:"rotate.bytes"`
	}
	if err := task.Settings.Decode(&cfg); err != nil {
		return err
	}
	if err := os.MkdirAll(cfg.Path, 0o755); err != nil {
		return connector.Problemf("path", "the folder cannot be made: %v", err)
	}
	s.log, s.folder, s.task, s.rotateBytes = task.Log, cfg.Path, task.Number, cfg.Rotate
	s.asRecords = cfg.Format == "record"
	s.files = make(map[string]*output)
	return nil
}

// Write implements connector.Sink.
func (s *sink) Write(_ context.Context, in *connector.Batch) error {
	bad := make(connector.RecordErrors)
	touched := make(map[*output]bool)
	for i, r := range in.Rows() {
		out, err := s.file(r.Topic)
		if err != nil {
			return err
		}
		if s.line, err = s.appendLine(s.line[:0], r); err != nil {
			bad[i] = err
			continue
		}
		if !out.hasWritten(r, s.line) {
			touched[out] = true
			out.add(r, s.line)
		}
	}
	if err := commitAll(touched); err != nil {
		return err
	}
	if len(bad) > 0 {
		return bad
	}
	return nil
}

// commitAll commits what was added to files. After an error the batch comes
// again, so what was not committed is dropped.
func commitAll(touched map[*output]bool) (err error) {
	for out := range touched {
		if err == nil {
			err = out.commit()
		}
		out.discard()
	}
	return err
}

// file returns the file of a topic, opening and repairing it.
func (s *sink) file(topic string) (*output, error) {
	if out, ok := s.files[topic]; ok {
		return out, nil
	}
	stem := filepath.Join(s.folder, topic+"-"+strconv.Itoa(s.task))
	out, err := openOutput(stem, s.rotateBytes, s.log)
	if err != nil {
		return nil, err
	}
	s.files[topic] = out
	return out, nil
}

// appendLine appends a record as a line of JSON.
func (s *sink) appendLine(dst []byte, r *connector.Record) (line []byte, err error) {
	if s.asRecords {
		dst, err = appendRecord(dst, r)
	} else if dst, err = r.Value.AppendJSON(dst); err != nil {
		err = fmt.Errorf("its value: %w", err)
	}
	if err != nil {
		return dst, err
	}
	if bytes.IndexByte(dst, '\n') >= 0 { // a document that was laid out over several lines
		var compact bytes.Buffer
		if err := json.Compact(&compact, dst); err != nil {
			return dst, fmt.Errorf("its document: %w", err)
		}
		dst = append(dst[:0], compact.Bytes()...)
	}
	return append(dst, '\n'), nil
}

func appendRecord(dst []byte, r *connector.Record) (line []byte, err error) {
	dst = append(dst, `{"topic":`...)
	if dst, err = connector.TextValue(r.Topic).AppendJSON(dst); err != nil {
		return dst, fmt.Errorf("its topic: %w", err)
	}
	dst = append(dst, `,"partition":`...)
	dst = strconv.AppendInt(dst, int64(r.Partition), 10)
	dst = append(dst, `,"offset":`...)
	dst = strconv.AppendInt(dst, r.Offset, 10)
	if !r.Timestamp.IsZero() {
		dst = append(dst, `,"timestamp":"`...)
		dst = r.Timestamp.UTC().AppendFormat(dst, "2006-01-02T15:04:05.000Z07:00")
		dst = append(dst, '"')
	}
	dst = append(dst, `,"key":`...)
	if dst, err = r.Key.AppendJSON(dst); err != nil {
		return dst, fmt.Errorf("its key: %w", err)
	}
	dst = append(dst, `,"value":`...)
	if dst, err = r.Value.AppendJSON(dst); err != nil {
		return dst, fmt.Errorf("its value: %w", err)
	}
	if dst, err = appendHeaders(dst, r.Headers); err != nil {
		return dst, fmt.Errorf("its headers: %w", err)
	}
	return append(dst, '}'), nil
}

// appendHeaders appends headers as a list of [name, value], as names may
// repeat. Values that are not UTF-8 are null with the bytes behind, in base64.
func appendHeaders(dst []byte, headers []connector.Header) ([]byte, error) {
	for i, h := range headers {
		if i == 0 {
			dst = append(dst, `,"headers":[`...)
		} else {
			dst = append(dst, ',')
		}
		var err error
		dst = append(dst, '[')
		if dst, err = connector.TextValue(h.Name).AppendJSON(dst); err != nil {
			return dst, err
		}
		dst = append(dst, ',')
		dst = appendHeaderValue(dst, h.Value)
		dst = append(dst, ']')
	}
	if len(headers) > 0 {
		dst = append(dst, ']')
	}
	return dst, nil
}

func appendHeaderValue(dst, value []byte) []byte {
	if value == nil {
		return append(dst, "null"...)
	}
	if out, err := connector.TextBytesValue(value).AppendJSON(dst); err == nil {
		return out
	}
	dst = append(dst, "null,"...)
	dst, _ = connector.BytesValue(value).AppendJSON(dst) // bytes always can be
	return dst
}

// Close implements connector.Sink.
func (s *sink) Close(context.Context) error {
	var errs []error
	for _, out := range s.files {
		errs = append(errs, out.close())
	}
	return errors.Join(errs...)
}

// millis returns a record's time as topics keep it, for comparing.
func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}
