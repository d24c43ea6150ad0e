package connector_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"

	"github.com/millrace/millrace/sdk/connector"
)

// plugin is a connector that counts. Its sink writes a file a record, named by
// the record's key.
var plugin = connector.Plugin{
	Name:    "counting",
	Version: "0.1.0",
	Spec: connector.Spec{
		Doc: "Counts, and writes what was counted to files.",
		Source: []connector.Field{
			{Name: "count", Type: connector.Integer, Default: "3", Min: 1, Max: 1e6, Doc: "how far to count"},
		},
		Sink: []connector.Field{
			{Name: "folder", Type: connector.String, Required: true, Doc: "where to put the files"},
		},
	},
	NewSource: func() connector.Source { return &counter{} },
	NewSink:   func() connector.Sink { return &folder{} },
}

// counter implements connector.Source.
type counter struct {
	next, last int
}

func (c *counter) Open(_ context.Context, task connector.Task) error {
	var cfg struct {
		Count int `setting:"count"`
	}
	if err := task.Settings.Decode(&cfg); err != nil {
		return err
	}
	c.next, c.last = 1, cfg.Count
	if position, ok := task.Resume["numbers"]; ok {
		n, err := strconv.Atoi(position)
		if err != nil {
			return fmt.Errorf("reading the stored position %q: %w", position, err)
		}
		c.next = n + 1
	}
	task.Log.Info("counting", "from", c.next, "to", c.last)
	return nil
}

func (c *counter) Read(ctx context.Context, out *connector.Batch) error {
	for ; c.next <= c.last && !out.Full(); c.next++ {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		number := strconv.Itoa(c.next)
		out.Append(connector.NewRecord(
			connector.Origin{Partition: "numbers", Position: number},
			connector.TextValue("number-"+number), // key
			connector.TextValue(number)))          // value
	}
	if c.next > c.last {
		return io.EOF // what was appended still counts
	}
	return nil
}

func (c *counter) Close(context.Context) error { return nil }

// folder implements connector.Sink.
type folder struct {
	path string
}

func (f *folder) Open(_ context.Context, task connector.Task) error {
	f.path = task.Settings.Get("folder")
	if info, err := os.Stat(f.path); err != nil || !info.IsDir() {
		return connector.Problemf("folder", "%q is not a folder", f.path)
	}
	return nil
}

func (f *folder) Write(_ context.Context, in *connector.Batch) error {
	bad := connector.RecordErrors{}
	for i, r := range in.Rows() {
		name := r.Key.Text()
		if name == "" || name != filepath.Base(name) {
			bad[i] = fmt.Errorf("the key %q makes no file name", name)
			continue
		}
		path := filepath.Join(f.path, name)
		var err error
		if r.Value.IsNull() {
			if err = os.Remove(path); errors.Is(err, os.ErrNotExist) {
				err = nil // it came again
			}
		} else {
			err = writeDurably(path, r.Value.Bytes())
		}
		if err != nil {
			return fmt.Errorf("writing the record at offset %d: %w", r.Offset, err)
		}
	}
	if len(bad) > 0 {
		return bad
	}
	return nil
}

func writeDurably(path string, text []byte) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	return errors.Join(err, file.Sync(), file.Close())
}

func (f *folder) Close(context.Context) error { return nil }

// A complete connector, with a source and a sink. Its main function is
//
//	func main() { connector.Serve(plugin) }
//
// Here the source is run as a unit test would run it.
func Example() {
	settings, err := connector.NewSettings(plugin.Spec.Source, map[string]string{"count": "4"})
	if err != nil {
		fmt.Println(err)
		return
	}
	source := plugin.NewSource()
	err = source.Open(context.Background(), connector.Task{
		Connector: "example",
		Settings:  settings,
		Resume:    map[string]string{"numbers": "2"},
		Log:       slog.New(slog.DiscardHandler),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	var batch connector.Batch
	err = source.Read(context.Background(), &batch)
	for _, r := range batch.Rows() {
		fmt.Println(r.Key.Text(), r.Value.Text())
	}
	fmt.Println("ended:", err == io.EOF)

	// Output:
	// number-3 3
	// number-4 4
	// ended: true
}

// Rows have a schema, which is made once and kept.
func ExampleSchema_Row() {
	schema, err := connector.NewSchema("orders",
		connector.Column{Name: "id", Type: connector.Int64, Required: true, Key: true},
		connector.Column{Name: "total", Type: connector.DecimalType, Precision: 12, Scale: 2},
		connector.Column{Name: "note", Type: connector.TextType})
	if err != nil {
		fmt.Println(err)
		return
	}
	total, err := connector.ParseDecimal("19.90")
	if err != nil {
		fmt.Println(err)
		return
	}
	row, err := schema.Row(connector.Int(7), connector.Dec(total), connector.Null)
	if err != nil {
		fmt.Println(err)
		return
	}
	text, err := connector.RowValue(row).AppendJSON(nil)
	fmt.Println(string(text), err)
	// Output: {"id":7,"total":19.90,"note":null} <nil>
}

// Sinks often get documents, as topics often hold JSON.
func ExampleDocument_Members() {
	doc, err := connector.ParseDocument([]byte(`{"id": 12345678901234567890, "tags": ["a"]}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	members, err := doc.Members()
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, m := range members {
		fmt.Printf("%s = %s\n", m.Name, m.Value)
	}
	// Output:
	// id = 12345678901234567890
	// tags = ["a"]
}
