package convert

import (
	"encoding/json"
	"math"
	"math/big"
	"testing"

	"github.com/millrace/millrace/sdk/connector"
)

func TestJSONKeepsEveryCellExact(t *testing.T) {
	schema, err := connector.NewSchema("t",
		connector.Column{Name: "int", Type: connector.Int64}, connector.Column{Name: "float", Type: connector.Float64},
		connector.Column{Name: "nan", Type: connector.Float64}, connector.Column{Name: "dec", Type: connector.DecimalType},
		connector.Column{Name: "bool", Type: connector.BoolType}, connector.Column{Name: "text", Type: connector.TextType},
		connector.Column{Name: "bytes", Type: connector.BytesType}, connector.Column{Name: "at", Type: connector.TimestampType},
		connector.Column{Name: "never", Type: connector.TimestampType}, connector.Column{Name: "json", Type: connector.JSONType},
		connector.Column{Name: "null", Type: connector.TextType}, connector.Column{Name: "unset", Type: connector.TextType})
	if err != nil {
		t.Fatal(err)
	}
	unscaled, _ := new(big.Int).SetString("123456789012345678901234567890", 10)
	dec, err := connector.NewDecimal(unscaled, 10)
	if err != nil {
		t.Fatal(err)
	}
	row, err := schema.Row(connector.Int(math.MaxInt64), connector.Float(0.1), connector.Float(math.NaN()), connector.Dec(dec),
		connector.Bool(true), connector.Text("a \"quote\"\n\x01<é>"), connector.Bytes([]byte{0, 255}), connector.Timestamp(1_500_000),
		connector.Timestamp(connector.Infinity), connector.JSON(connector.Document(`{"b":1.50}`)), connector.Null, connector.Unset)
	if err != nil {
		t.Fatal(err)
	}
	got, err := JSON{}.Encode(connector.RowValue(row))
	if err != nil {
		t.Fatal(err)
	}
	want := `{"int":9223372036854775807,"float":0.1,"nan":"NaN","dec":12345678901234567890.1234567890,"bool":true,` +
		`"text":"a \"quote\"\n\u0001<é>","bytes":"AP8=","at":"1970-01-01T00:00:01.5Z","never":"Infinity","json":{"b":1.50},"null":null}`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if !json.Valid(got) {
		t.Error("the result is not JSON")
	}
}

func TestNullIsNeverText(t *testing.T) {
	for _, name := range Names {
		c, err := Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		if b, err := c.Encode(connector.Value{}); b != nil || err != nil {
			t.Errorf("%s writes null as %q, %v", name, b, err)
		}
		if v, err := c.Decode(nil); !v.IsNull() || err != nil {
			t.Errorf("%s reads no value as %v, %v", name, v.Kind(), err)
		}
	}
}

func TestTheJSONTextNullIsReadAsNull(t *testing.T) {
	if v, err := (JSON{}).Decode([]byte(" null ")); !v.IsNull() || err != nil {
		t.Errorf("it is read as %v, %v", v.Kind(), err)
	}
}

func TestEmptyTextIsNotNull(t *testing.T) {
	for _, c := range []Converter{Text{}, Bytes{}} {
		b, err := c.Encode(connector.TextValue(""))
		if b == nil || len(b) != 0 || err != nil {
			t.Errorf("%T writes empty text as %#v, %v", c, b, err)
		}
		if v, err := c.Decode(b); v.IsNull() || err != nil {
			t.Errorf("%T reads no bytes as %v, %v", c, v.Kind(), err)
		}
	}
}

func TestStringPassesBytesThatAreNotUTF8(t *testing.T) {
	b, err := Text{}.Encode(connector.TextValue("caf\xe9"))
	if string(b) != "caf\xe9" || err != nil {
		t.Errorf("got %q, %v", b, err)
	}
	if _, err := (JSON{}).Encode(connector.TextValue("caf\xe9")); err == nil {
		t.Error("JSON wrote text that is not UTF-8")
	}
}

func TestBadJSONIsAnError(t *testing.T) {
	for _, text := range []string{"", "{", "a line", "{} {}", "nul"} {
		if v, err := (JSON{}).Decode([]byte(text)); err == nil {
			t.Errorf("%q was read as %s", text, v.Kind())
		}
	}
}

func TestLookupNamesWhatThereIs(t *testing.T) {
	if _, err := Lookup("org.apache.kafka.connect.json.JsonConverter"); err != nil {
		t.Error(err)
	}
	if _, err := Lookup("avro"); err == nil {
		t.Error("found a converter that is not there")
	}
}
