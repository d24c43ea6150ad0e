package connector

import "math/big"

// Decimal is an exact decimal number of up to 150,000 digits, or one of NaN,
// Infinity and -Infinity, which some databases have. It keeps trailing zeros:
// 1.50 is not the same Decimal as 1.5, though Cmp finds them equal. The zero
// Decimal is 0.
type Decimal struct {
	text string // canonical: as String returns it; empty for 0
}

// ParseDecimal reads a number such as "-12.50", "1e-7", "NaN", "Infinity" or
// "-Infinity".
func ParseDecimal(s string) (Decimal, error) { return parseDecimal(s) }

// NewDecimal returns unscaled × 10^-scale. A negative scale appends zeros.
func NewDecimal(unscaled *big.Int, scale int) (Decimal, error) { return newDecimal(unscaled, scale) }

// DecimalOf returns v as a decimal.
func DecimalOf(v int64) Decimal { return decimalOf(v) }

// String returns the number without exponent, such as "-12.50".
func (d Decimal) String() string {
	if d.text == "" {
		return "0"
	}
	return d.text
}

// IsFinite reports whether the decimal is a number rather than NaN or an
// infinity.
func (d Decimal) IsFinite() bool { return d.isFinite() }

// Unscaled returns the number as an integer and the count of its digits that
// are behind the point. It returns nil if the decimal is not finite.
func (d Decimal) Unscaled() (unscaled *big.Int, scale int) { return d.unscaled() }

// Cmp returns -1, 0 or 1 as d is less than, equal to or greater than e. NaN
// equals itself and is greater than all others.
func (d Decimal) Cmp(e Decimal) int { return d.cmp(e) }
