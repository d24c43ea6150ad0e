package connector

import (
	"errors"
	"fmt"
	"math/big"
	"strconv"
	"strings"
)

// maxDecimalDigits is above what any database is known to hold (PostgreSQL:
// 131,072 before the point and 16,383 behind it), and keeps "1e999999999" from
// taking all memory.
const maxDecimalDigits = 150_000

// Decimal is an exact decimal number of up to 150,000 digits, or one of NaN,
// Infinity and -Infinity, which some databases have. It keeps trailing zeros:
// 1.50 is not the same Decimal as 1.5, though Cmp finds them equal. The zero
// Decimal is 0.
type Decimal struct {
	text string // canonical: as String returns it; empty for 0
}

// ParseDecimal reads a number such as "-12.50", "1e-7", "NaN", "Infinity" or
// "-Infinity".
func ParseDecimal(s string) (Decimal, error) {
	switch strings.ToLower(s) {
	case "nan":
		return Decimal{decimalNaN}, nil
	case "infinity", "+infinity", "inf", "+inf":
		return Decimal{decimalInfinity}, nil
	case "-infinity", "-inf":
		return Decimal{decimalNegInfinity}, nil
	}
	rest, negative := strings.CutPrefix(s, "-")
	if !negative {
		rest = strings.TrimPrefix(rest, "+")
	}
	exponent := 0
	if i := strings.IndexAny(rest, "eE"); i >= 0 {
		e, err := strconv.Atoi(rest[i+1:])
		if err != nil || e > maxDecimalDigits || e < -maxDecimalDigits {
			return Decimal{}, decimalError(s, "its exponent is not a number within 150,000")
		}
		rest, exponent = rest[:i], e
	}
	whole, fraction, _ := strings.Cut(rest, ".")
	digits := whole + fraction
	if digits == "" || strings.Trim(digits, "0123456789") != "" {
		return Decimal{}, decimalError(s, "it is not a number")
	}
	d, err := placePoint(negative, digits, len(fraction)-exponent)
	if err != nil {
		return Decimal{}, decimalError(s, err.Error())
	}
	return d, nil
}

const (
	decimalNaN         = "NaN"
	decimalInfinity    = "Infinity"
	decimalNegInfinity = "-Infinity"
)

func decimalError(s, why string) error {
	if len(s) > 40 {
		s = s[:40] + "..."
	}
	return fmt.Errorf("reading the decimal %q: %s", s, why)
}

// placePoint returns the decimal of the given digits, scale of which are
// behind the point. A negative scale appends zeros.
func placePoint(negative bool, digits string, scale int) (Decimal, error) {
	digits = strings.TrimLeft(digits, "0")
	isZero := digits == ""
	if scale < 0 {
		if -scale > maxDecimalDigits {
			return Decimal{}, errors.New("it has more than 150,000 digits")
		}
		if !isZero {
			digits += strings.Repeat("0", -scale)
		}
		scale = 0
	}
	if len(digits) > maxDecimalDigits || scale > maxDecimalDigits {
		return Decimal{}, errors.New("it has more than 150,000 digits")
	}
	if missing := scale + 1 - len(digits); missing > 0 {
		digits = strings.Repeat("0", missing) + digits
	}
	var b strings.Builder
	if negative && !isZero {
		b.WriteByte('-')
	}
	point := len(digits) - scale
	b.WriteString(digits[:point])
	if scale > 0 {
		b.WriteByte('.')
		b.WriteString(digits[point:])
	}
	if b.String() == "0" {
		return Decimal{}, nil // so that == finds all plain zeros equal
	}
	return Decimal{b.String()}, nil
}

// NewDecimal returns unscaled × 10^-scale. A negative scale appends zeros.
func NewDecimal(unscaled *big.Int, scale int) (Decimal, error) {
	digits := new(big.Int).Abs(unscaled).String()
	d, err := placePoint(unscaled.Sign() < 0, digits, scale)
	if err != nil {
		return Decimal{}, fmt.Errorf("making a decimal of scale %d: %w", scale, err)
	}
	return d, nil
}

// DecimalOf returns v as a decimal.
func DecimalOf(v int64) Decimal {
	if v == 0 {
		return Decimal{}
	}
	return Decimal{strconv.FormatInt(v, 10)}
}

// String returns the number without exponent, such as "-12.50".
func (d Decimal) String() string {
	if d.text == "" {
		return "0"
	}
	return d.text
}

// IsFinite reports whether the decimal is a number rather than NaN or an
// infinity.
func (d Decimal) IsFinite() bool {
	return d.text != decimalNaN && d.text != decimalInfinity && d.text != decimalNegInfinity
}

// Unscaled returns the number as an integer and the count of its digits that
// are behind the point. It returns nil if the decimal is not finite.
func (d Decimal) Unscaled() (unscaled *big.Int, scale int) {
	if !d.IsFinite() {
		return nil, 0
	}
	whole, fraction, _ := strings.Cut(d.String(), ".")
	unscaled, _ = new(big.Int).SetString(whole+fraction, 10)
	return unscaled, len(fraction)
}

// Cmp returns -1, 0 or 1 as d is less than, equal to or greater than e. NaN
// equals itself and is greater than all others.
func (d Decimal) Cmp(e Decimal) int {
	if rd, re := d.rank(), e.rank(); rd != re || rd != 0 {
		return max(-1, min(1, rd-re))
	}
	du, ds := d.Unscaled()
	eu, es := e.Unscaled()
	if ds < es {
		du.Mul(du, pow10(es-ds))
	} else {
		eu.Mul(eu, pow10(ds-es))
	}
	return du.Cmp(eu)
}

// rank orders the kinds: -Infinity, numbers, Infinity, NaN.
func (d Decimal) rank() int {
	switch d.text {
	case decimalNegInfinity:
		return -1
	case decimalInfinity:
		return 1
	case decimalNaN:
		return 2
	}
	return 0
}

func pow10(n int) *big.Int {
	return new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(n)), nil)
}
