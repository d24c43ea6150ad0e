package connector

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestDecimalsAreReadExactly(t *testing.T) {
	for text, want := range map[string]string{
		"0": "0", "-0": "0", "-0.00": "0.00", "007": "7", "1.50": "1.50", "+1": "1", ".5": "0.5", "5.": "5",
		"-12.50": "-12.50", "1e3": "1000", "1.5e1": "15", "1e-7": "0.0000001", "0e5": "0", "0.00e1": "0.0",
		"123456789012345678901234567890.123456789": "123456789012345678901234567890.123456789",
		"nan": "NaN", "Infinity": "Infinity", "-inf": "-Infinity",
	} {
		d, err := ParseDecimal(text)
		if err != nil || d.String() != want {
			t.Errorf("%q was read as %v, %v; want %v", text, d, err, want)
		}
	}
	for _, text := range []string{"", "-", ".", "1.2.3", "1e", "1e999999999", "0x1", "1,5", " 1", "--1", "1e150000000000000000000", strings.Repeat("9", 150_001)} {
		if d, err := ParseDecimal(text); err == nil {
			t.Errorf("%.20q was read as %.20v", text, d)
		}
	}
}

func TestDecimalsCompareAsNumbers(t *testing.T) {
	inOrder := []string{"-Infinity", "-10", "-1.5", "0", "0.0001", "1.5", "2", "10", "Infinity", "NaN"}
	for i, a := range inOrder {
		for j, b := range inOrder {
			x, y := must(ParseDecimal(a))(nil), must(ParseDecimal(b))(nil)
			if got, want := x.Cmp(y), max(-1, min(1, i-j)); got != want {
				t.Errorf("%s compared with %s is %d, want %d", a, b, got, want)
			}
		}
	}
	if a, b := must(ParseDecimal("1.50"))(nil), must(ParseDecimal("1.5"))(nil); a == b || a.Cmp(b) != 0 {
		t.Error("1.50 and 1.5 should be different and compare equal")
	}
}

func TestDecimalsRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := genDecimal(t)
		if again, err := ParseDecimal(d.String()); err != nil || again != d {
			t.Fatalf("%v was read back as %v, %v", d, again, err)
		}
		if unscaled, scale := d.Unscaled(); unscaled != nil {
			if again, err := NewDecimal(unscaled, scale); err != nil || again != d {
				t.Fatalf("%v made of its parts is %v, %v", d, again, err)
			}
		}
	})
	if d := DecimalOf(0); d != (Decimal{}) {
		t.Errorf("0 is %#v", d)
	}
	if d, err := NewDecimal(big.NewInt(15), -2); err != nil || d.String() != "1500" {
		t.Errorf("15 hundreds are %v, %v", d, err)
	}
}

func FuzzParseDecimal(f *testing.F) {
	for _, seed := range []string{"1.50", "-1e-10", "NaN", "", "9e99", "0.0e-3"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d, err := ParseDecimal(text)
		if err != nil {
			return
		}
		if again, err := ParseDecimal(d.String()); err != nil || again != d {
			t.Errorf("%q became %v, then %v, %v", text, d, again, err)
		}
	})
}

func TestDocumentsKeepOrderAndDigits(t *testing.T) {
	text := `{"b":1.50,"a":{"x":[1,null]},"b2":12345678901234567890,"a":"last"}`
	d, err := ParseDocument([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	members, err := d.Members()
	if err != nil {
		t.Fatal(err)
	}
	want := []Member{{"b", Document("1.50")}, {"a", Document(`"last"`)}, {"b2", Document("12345678901234567890")}}
	if !reflect.DeepEqual(members, want) {
		t.Errorf("members are %q, want %q", members, want)
	}
	for _, bad := range []string{"", "{", "1 2", "nope", `{"a":}`, "[1]x"} {
		if _, err := ParseDocument([]byte(bad)); err == nil {
			t.Errorf("%q was taken for a document", bad)
		}
		if _, err := Document(bad).Decode(); err == nil {
			t.Errorf("%q was decoded", bad)
		}
		if _, err := Document(bad).Members(); err == nil {
			t.Errorf("%q has members", bad)
		}
	}
	if d, err := NewDocument(map[string]any{"a": "<b>"}); err != nil || string(d) != `{"a":"<b>"}` {
		t.Errorf("made %s, %v", d, err)
	}
}

func TestRowsFitTheirSchema(t *testing.T) {
	s, err := NewSchema("t", Column{Name: "id", Type: Int64, Required: true, Key: true}, Column{Name: "note", Type: TextType})
	if err != nil {
		t.Fatal(err)
	}
	row, err := s.Row(Int(1), Null)
	if err != nil {
		t.Fatal(err)
	}
	if row.Get("id").Int() != 1 || !row.Get("note").IsNull() || !row.Get("other").IsUnset() {
		t.Errorf("the row is %+v", row)
	}
	for name, cells := range map[string][]Cell{"too few": {Int(1)}, "wrong type": {Int(1), Int(2)}, "NULL where required": {Null, Null}} {
		if _, err := s.Row(cells...); err == nil {
			t.Errorf("%s: was accepted", name)
		}
	}
	if _, err := s.Row(Unset, Unset); err != nil {
		t.Errorf("unset cells: %v", err)
	}
	for name, c := range map[string][]Column{"no name": {{Type: Int64}}, "no type": {{Name: "a"}}, "twice": {{Name: "a", Type: Int64}, {Name: "a", Type: Int64}}} {
		if _, err := NewSchema("t", c...); err == nil {
			t.Errorf("%s: was accepted", name)
		}
	}
}

func TestValuesAsJSON(t *testing.T) {
	s, err := NewSchema("t",
		Column{Name: "i", Type: Int64}, Column{Name: "f", Type: Float64}, Column{Name: "nan", Type: Float64},
		Column{Name: "d", Type: DecimalType}, Column{Name: "inf", Type: DecimalType}, Column{Name: "b", Type: BoolType},
		Column{Name: "t", Type: TextType}, Column{Name: "y", Type: BytesType}, Column{Name: "at", Type: TimestampType},
		Column{Name: "never", Type: TimestampType}, Column{Name: "j", Type: JSONType}, Column{Name: "null", Type: TextType}, Column{Name: "unset", Type: TextType})
	if err != nil {
		t.Fatal(err)
	}
	row, err := s.Row(Int(math.MinInt64), Float(0.1), Float(math.NaN()), Dec(must(ParseDecimal("12345678901234567890.10"))(nil)),
		Dec(must(ParseDecimal("-inf"))(nil)), Bool(true), Text("a \"quote\" <é>\n"), Bytes([]byte{0, 255}),
		Timestamp(MicrosOf(time.Date(-43, 3, 15, 12, 0, 0, 1500, time.UTC))), Timestamp(Infinity), JSON(Document(`{"x": 1.50}`)), Null, Unset)
	if err != nil {
		t.Fatal(err)
	}
	got, err := RowValue(row).AppendJSON(nil)
	want := `{"i":-9223372036854775808,"f":0.1,"nan":"NaN","d":12345678901234567890.10,"inf":"-Infinity","b":true,"t":"a \"quote\" <é>\n",` +
		`"y":"AP8=","at":"-0043-03-15T12:00:00.000001Z","never":"Infinity","j":{"x": 1.50},"null":null}`
	if err != nil || string(got) != want {
		t.Errorf("got\n%s, %v\nwant\n%s", got, err, want)
	}
	if out, err := TextValue("\xff").AppendJSON([]byte("x")); err == nil || string(out) != "x" {
		t.Errorf("text that is not UTF-8 became %q, %v", out, err)
	}
}

func TestRetryAndRecordErrors(t *testing.T) {
	retry, ok := errors.AsType[*RetryError](fmt.Errorf("x: %w", Retry(RecordErrors{2: errStub("b"), 1: errStub("a")}, time.Second)))
	if !ok || retry.After != time.Second || retry.Cause.Error() != "2 records failed, the first being record 1: a" {
		t.Errorf("got %v, %v", retry, ok)
	}
}

type errStub string

func (e errStub) Error() string { return string(e) }
