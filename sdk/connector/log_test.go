package connector

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

// What an author logs crosses to the host as JSON, and must be worth reading
// there.
func TestValuesAreLoggedAsWhatTheyAre(t *testing.T) {
	settings, err := NewSettings(fieldsUnderTest(), map[string]string{"path": "x", "password": "hush-hush", "options.key": "also-hush"})
	if err != nil {
		t.Fatal(err)
	}
	schema := must(NewSchema("t", Column{Name: "id", Type: Int64}, Column{Name: "price", Type: DecimalType}))(nil)
	row := must(schema.Row(Int(7), Dec(must(ParseDecimal("1.50"))(nil))))(nil)
	doc := must(ParseDocument([]byte(`{"b": 1.0, "a": [null]}`)))(nil)
	for _, c := range []struct {
		name       string
		value      any
		json, text string
	}{
		{"a text", TextValue("a line"), `"a line"`, `"\"a line\""`},
		{"no value", Value{}, `null`, `null`},
		{"a row", row, `{"id":7,"price":1.50}`, `"{\"id\":7,\"price\":1.50}"`},
		{"a value that is a row", RowValue(row), `{"id":7,"price":1.50}`, `"{\"id\":7,\"price\":1.50}"`},
		{"a document", doc, `{"b":1.0,"a":[null]}`, `"{\"b\": 1.0, \"a\": [null]}"`},
		{"a cell", Bool(true), `true`, `true`},
		{"a decimal", DecimalOf(12), `12`, `12`},
		{"a kind", KindDocument, `"document"`, `document`},
		{"an operation", OperationDelete, `"delete"`, `delete`},
		{"a type", TimestampType, `"timestamp"`, `timestamp`},
	} {
		t.Run(c.name, func(t *testing.T) {
			for want, handler := range map[string]func(*bytes.Buffer) slog.Handler{
				`"v":` + c.json + "}\n": func(b *bytes.Buffer) slog.Handler { return slog.NewJSONHandler(b, nil) },
				"v=" + c.text + "\n":    func(b *bytes.Buffer) slog.Handler { return slog.NewTextHandler(b, nil) },
			} {
				var log bytes.Buffer
				slog.New(handler(&log)).Info("m", "v", c.value)
				if !strings.HasSuffix(log.String(), want) {
					t.Errorf("logged %s, want %s at its end", log.String(), want)
				}
			}
		})
	}
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("m", "settings", settings)
	if got := log.String(); !strings.Contains(got, `"path":"x"`) || !strings.Contains(got, `"password":"[hidden]"`) {
		t.Errorf("settings are logged as %s", got)
	}
	for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
		log.WriteString(fmt.Sprintf(format, settings))
	}
	if strings.Contains(log.String(), "hush") {
		t.Errorf("a secret is in %s", log.String())
	}
}

func TestDocumentsAreJSONToEncodingJSON(t *testing.T) {
	type message struct {
		Doc  Document `json:"doc"`
		None Document `json:"none"`
	}
	text, err := json.Marshal(message{Doc: Document(`{"n":12345678901234567890.10,"z":1}`)})
	if want := `{"doc":{"n":12345678901234567890.10,"z":1},"none":null}`; err != nil || string(text) != want {
		t.Fatalf("marshalled as %s, %v; want %s", text, err, want)
	}
	var again message
	if err := json.Unmarshal(text, &again); err != nil || string(again.Doc) != `{"n":12345678901234567890.10,"z":1}` {
		t.Errorf("read back as %s, %v", again.Doc, err)
	}
	clear(text)
	if again.Doc.Kind() != '{' {
		t.Error("the document shares the text that it was read from")
	}
	doc, err := NewDocument(map[string]any{"inner": again.Doc})
	if want := `{"inner":{"n":12345678901234567890.10,"z":1}}`; err != nil || doc.String() != want {
		t.Errorf("a document of a document is %s, %v; want %s", doc, err, want)
	}
	if doc, err := NewDocument(Document("{bad")); err == nil {
		t.Errorf("a document of what is not JSON is %s", doc)
	}
}

func TestRetryWithoutACauseIsStillARetry(t *testing.T) {
	err := Retry(nil, -1)
	retry, ok := errors.AsType[*RetryError](err)
	if !ok || retry.After != 0 || err.Error() == "" {
		t.Errorf("got %#v", err)
	}
}
