package connector

import (
	"bytes"
	"fmt"
	"math"
	"math/big"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// genSchema draws a schema with columns of all types.
func genSchema(t *rapid.T) *Schema {
	columns := make([]Column, rapid.IntRange(0, 10).Draw(t, "columns"))
	for i := range columns {
		columns[i] = Column{
			Name:   fmt.Sprintf("%s%d", rapid.String().Draw(t, "name"), i),
			Type:   Type(rapid.IntRange(int(Int64), int(JSONType)).Draw(t, "type")),
			Key:    rapid.Bool().Draw(t, "key"),
			Native: rapid.SampledFrom([]string{"", "timestamptz"}).Draw(t, "native"),
		}
		if columns[i].Type == DecimalType {
			columns[i].Precision, columns[i].Scale = rapid.IntRange(0, 50).Draw(t, "precision"), 0
			if columns[i].Precision > 0 {
				columns[i].Scale = rapid.IntRange(-5, 50).Draw(t, "scale")
			}
		}
	}
	s, err := NewSchema(rapid.String().Draw(t, "schema name"), columns...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func genDecimal(t *rapid.T) Decimal {
	if special := rapid.SampledFrom([]string{"", "", "", "NaN", "Infinity", "-Infinity"}).Draw(t, "special"); special != "" {
		return must(ParseDecimal(special))(t)
	}
	digits := new(big.Int).SetBytes(rapid.SliceOfN(rapid.Byte(), 0, 60).Draw(t, "digits"))
	if rapid.Bool().Draw(t, "negative") {
		digits.Neg(digits)
	}
	return must(NewDecimal(digits, rapid.IntRange(-20, 100).Draw(t, "scale")))(t)
}

func must[T any](v T, err error) func(t *rapid.T) T {
	return func(t *rapid.T) T {
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func genCell(t *rapid.T, c Column) Cell {
	switch rapid.IntRange(0, 5).Draw(t, "state") {
	case 0:
		return Null
	case 1:
		return Unset
	}
	switch c.Type {
	case Int64:
		return Int(rapid.Int64().Draw(t, "int"))
	case Float64:
		return Float(math.Float64frombits(rapid.Uint64().Draw(t, "float bits"))) // NaNs of all kinds included
	case DecimalType:
		return Dec(genDecimal(t))
	case BoolType:
		return Bool(rapid.Bool().Draw(t, "bool"))
	case TextType:
		return Text(string(rapid.SliceOf(rapid.Byte()).Draw(t, "text")))
	case BytesType:
		return Bytes(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes"))
	case TimestampType:
		return Timestamp(Micros(rapid.OneOf(rapid.Int64(), rapid.SampledFrom([]int64{math.MinInt64, math.MaxInt64})).Draw(t, "micros")))
	}
	return JSON(must(NewDocument(rapid.MapOf(rapid.String(), rapid.Int64()).Draw(t, "json")))(t))
}

func genValue(t *rapid.T, schemas []*Schema) Value {
	switch Kind(rapid.IntRange(0, int(KindDocument)).Draw(t, "kind")) {
	case KindBytes:
		return BytesValue(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes"))
	case KindText:
		return TextValue(string(rapid.SliceOf(rapid.Byte()).Draw(t, "text")))
	case KindDocument:
		return DocumentValue(must(NewDocument(rapid.SliceOf(rapid.String()).Draw(t, "document")))(t))
	case KindRow:
		s := rapid.SampledFrom(schemas).Draw(t, "schema")
		cells := make([]Cell, s.Len())
		for i := range cells {
			cells[i] = genCell(t, s.Column(i))
		}
		return RowValue(must(s.Row(cells...))(t))
	}
	return Value{}
}

func genRecord(t *rapid.T, schemas []*Schema) Record {
	text := rapid.String()
	r := Record{
		Topic:     text.Draw(t, "topic"),
		Partition: rapid.Int32().Draw(t, "partition"),
		Offset:    rapid.Int64().Draw(t, "offset"),
		Key:       genValue(t, schemas),
		Value:     genValue(t, schemas),
		Operation: Operation(rapid.IntRange(0, int(OperationTruncate)).Draw(t, "operation")),
		Origin:    Origin{Partition: text.Draw(t, "origin partition"), Position: text.Draw(t, "origin position")},
	}
	if rapid.Bool().Draw(t, "has a timestamp") {
		r.Timestamp = time.UnixMicro(rapid.Int64Range(-1<<60, 1<<60).Draw(t, "timestamp")).UTC()
	}
	for range rapid.IntRange(0, 3).Draw(t, "headers") {
		h := Header{Name: string(rapid.SliceOf(rapid.Byte()).Draw(t, "header name"))}
		if rapid.Bool().Draw(t, "header has a value") {
			h.Value = append([]byte{}, rapid.SliceOf(rapid.Byte()).Draw(t, "header value")...)
		}
		r.Headers = append(r.Headers, h)
	}
	return r
}

// describe makes a record comparable; %#v would show pointers.
func describe(r *Record) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%q %d %d %v %v %q %s", r.Topic, r.Partition, r.Offset, r.Timestamp, r.Operation, r.Origin, describeValue(r.Key))
	fmt.Fprintf(&b, " %s", describeValue(r.Value))
	for _, h := range r.Headers {
		fmt.Fprintf(&b, " %q=%q,%v", h.Name, h.Value, h.Value == nil)
	}
	return b.String()
}

func describeValue(v Value) string {
	if v.Kind() != KindRow {
		return fmt.Sprintf("%v %q", v.Kind(), v.Bytes())
	}
	s := v.Row().Schema()
	return fmt.Sprintf("row of %q %+v: %#v", s.Name(), s.columns, v.Row().cells)
}

// Whatever a batch holds arrives as it was, over several batches of a stream
// and cut in pieces of any size.
func TestBatchesArriveExactlyAsTheyWere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		schemas := []*Schema{genSchema(t), genSchema(t), genSchema(t)}
		enc, dec := NewEncoder(), NewDecoder()
		limit := rapid.IntRange(1, 2000).Draw(t, "limit")
		for range rapid.IntRange(1, 4).Draw(t, "batches") {
			var sent, got Batch
			for range rapid.IntRange(1, 12).Draw(t, "records") {
				sent.Append(genRecord(t, schemas))
			}
			for begin := 0; begin < sent.Len(); {
				frame, end, err := enc.Encode(&sent, begin, limit)
				if err != nil {
					t.Fatal(err)
				}
				if end <= begin {
					t.Fatalf("a frame of no records at %d", begin)
				}
				if err := dec.Decode(frame, &got); err != nil {
					t.Fatal(err)
				}
				clear(frame) // the batch must not refer to it
				begin = end
			}
			if got.Len() != sent.Len() {
				t.Fatalf("%d records arrived, %d were sent", got.Len(), sent.Len())
			}
			for i := range sent.Len() {
				if want, have := describe(sent.At(i)), describe(got.At(i)); want != have {
					t.Fatalf("record %d arrived as\n%s\nbut was sent as\n%s", i, have, want)
				}
			}
		}
	})
}

func TestSchemaIsSentOnceAndKeepsItsIdentity(t *testing.T) {
	schema, err := NewSchema("a table with quite a long name", Column{Name: "a column with quite a long name", Type: Int64})
	if err != nil {
		t.Fatal(err)
	}
	enc, dec := NewEncoder(), NewDecoder()
	var sizes []int
	var seen []*Schema
	for i := range 3 {
		var b, got Batch
		row, err := schema.Row(Int(int64(i)))
		if err != nil {
			t.Fatal(err)
		}
		b.Append(NewRecord(Origin{}, Value{}, RowValue(row)))
		frame, _, err := enc.Encode(&b, 0, 0)
		if err == nil {
			err = dec.Decode(frame, &got)
		}
		if err != nil {
			t.Fatal(err)
		}
		sizes = append(sizes, len(frame))
		seen = append(seen, got.At(0).Value.Row().Schema())
	}
	if sizes[1] != sizes[2] || sizes[0] < sizes[1]+len(schema.Name()) {
		t.Errorf("frames take %v bytes; only the first should hold the schema", sizes)
	}
	if seen[0] != seen[1] || seen[1] != seen[2] {
		t.Error("one schema arrived as several")
	}
}

func TestOriginsMustBeText(t *testing.T) {
	var b Batch
	b.Append(NewRecord(Origin{Partition: "a\xff"}, Value{}, TextValue("x")))
	if _, _, err := NewEncoder().Encode(&b, 0, 0); err == nil || !strings.Contains(err.Error(), "UTF-8") {
		t.Errorf("error is %v", err)
	}
}

// FuzzDecode feeds damaged frames to a decoder: it must return, with a batch
// or an error.
func FuzzDecode(f *testing.F) {
	schema, err := NewSchema("t", Column{Name: "a", Type: Int64}, Column{Name: "b", Type: TextType}, Column{Name: "c", Type: BoolType})
	if err != nil {
		f.Fatal(err)
	}
	row, err := schema.Row(Int(1), Text("x"), Unset)
	if err != nil {
		f.Fatal(err)
	}
	var b Batch
	b.Append(NewRecord(Origin{"p", "1"}, TextValue("k"), RowValue(row)))
	b.Append(Record{Topic: "t", Headers: []Header{{"h", []byte("v")}, {"n", nil}}, Value: BytesValue([]byte{1, 2})})
	frame, _, err := NewEncoder().Encode(&b, 0, 0)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(frame)
	f.Add([]byte{})
	for i := 0; i < len(frame); i += 7 {
		damaged := bytes.Clone(frame)
		damaged[i] ^= 0xff
		f.Add(damaged)
		f.Add(frame[:i])
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		dec := NewDecoder()
		for range 2 { // the second frame of a stream is read on other paths
			var got Batch
			if err := dec.Decode(bytes.Clone(data), &got); err != nil {
				return
			}
			for _, r := range got.Rows() {
				_ = describe(r)
			}
		}
	})
}

func TestWireNumbersOfKindsAndTypesAreFixed(t *testing.T) {
	// docs/format/connector-protocol.md lists them.
	kinds := []Kind{KindNull, KindBytes, KindText, KindRow, KindDocument}
	types := []Type{0, Int64, Float64, DecimalType, BoolType, TextType, BytesType, TimestampType, JSONType}
	operations := []Operation{OperationNone, OperationSnapshot, OperationInsert, OperationUpdate, OperationDelete, OperationTruncate}
	for i := range kinds {
		if int(kinds[i]) != i {
			t.Errorf("kind %v is %d, want %d", kinds[i], kinds[i], i)
		}
	}
	for i := range types {
		if int(types[i]) != i {
			t.Errorf("type %v is %d, want %d", types[i], types[i], i)
		}
	}
	for i := range operations {
		if int(operations[i]) != i {
			t.Errorf("operation %v is %d, want %d", operations[i], operations[i], i)
		}
	}
}

func BenchmarkCodec(b *testing.B) {
	var batch, got Batch
	line := bytes.Repeat([]byte("x"), 150)
	for i := range 5000 {
		batch.Append(NewRecord(Origin{"/var/log/access.log", fmt.Sprint(i)}, TextValue(fmt.Sprintf("/var/log/access.log:%d", i)), BytesValue(line)))
	}
	enc, dec := NewEncoder(), NewDecoder()
	b.SetBytes(int64(batch.Size()))
	for b.Loop() {
		for begin := 0; begin < batch.Len(); {
			frame, end, err := enc.Encode(&batch, begin, 0)
			if err != nil {
				b.Fatal(err)
			}
			got.Reset()
			if err := dec.Decode(frame, &got); err != nil {
				b.Fatal(err)
			}
			begin = end
		}
	}
	if !reflect.DeepEqual(got.At(got.Len()-1).Value.Bytes(), line) {
		b.Fatal("wrong value")
	}
}
