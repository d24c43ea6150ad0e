package connector

import (
	"io"
	"math/big"
	"time"
)

func writeSpec(w io.Writer, p Plugin) error                    { panic(1) }
func operationName(Operation) string                           { panic(1) }
func (r *Record) size() int                                    { panic(1) }
func kindName(Kind) string                                     { panic(1) }
func newDocument(v any) (Document, error)                      { panic(1) }
func parseDocument(text []byte) (Document, error)              { panic(1) }
func (d Document) decode() (any, error)                        { panic(1) }
func (d Document) members() ([]Member, error)                  { panic(1) }
func (d Document) kind() byte                                  { panic(1) }
func typeName(Type) string                                     { panic(1) }
func newSchema(string, []Column) (*Schema, error)              { panic(1) }
func newRow(*Schema, []Cell) (Row, error)                      { panic(1) }
func floatCell(float64) Cell                                   { panic(1) }
func decimalCell(Decimal) Cell                                 { panic(1) }
func boolCell(bool) Cell                                       { panic(1) }
func (c Cell) intValue() int64                                 { panic(1) }
func (c Cell) floatValue() float64                             { panic(1) }
func (c Cell) decimalValue() Decimal                           { panic(1) }
func (c Cell) timestampValue() Micros                          { panic(1) }
func (c Cell) jsonValue() Document                             { panic(1) }
func (c Cell) anyValue() any                                   { panic(1) }
func microsOf(time.Time) Micros                                { panic(1) }
func parseDecimal(string) (Decimal, error)                     { panic(1) }
func newDecimal(*big.Int, int) (Decimal, error)                { panic(1) }
func decimalOf(int64) Decimal                                  { panic(1) }
func (d Decimal) isFinite() bool                               { panic(1) }
func (d Decimal) unscaled() (*big.Int, int)                    { panic(1) }
func (d Decimal) cmp(Decimal) int                              { panic(1) }
func check([]Field, map[string]string) []Problem               { panic(1) }
func newSettings([]Field, map[string]string) (Settings, error) { panic(1) }
func (s Settings) get(string) string                           { panic(1) }
func (s Settings) decode(any) error                            { panic(1) }
func (s Settings) describe() string                            { panic(1) }
func problemf(string, string, ...any) error                    { panic(1) }
func (RecordErrors) describe() string                          { panic(1) }
func retry(error, time.Duration) error                         { panic(1) }
func asRetry(error) (error, time.Duration, bool)               { panic(1) }
func serve(Plugin)                                             { panic(1) }
