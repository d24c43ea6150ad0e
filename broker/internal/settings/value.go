package settings

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// value is a setting's value after parsing: of the fields, those that belong
// to its type are set.
type value struct {
	text string
	num  int64
	flag bool
	list []string
}

// parse reads text as a value of the type. The error says what was expected.
// As Kafka does, it ignores space around the value.
func parse(t Type, text string) (value, error) {
	v := value{text: strings.TrimSpace(text)}
	var err error
	switch t {
	case Bool:
		switch strings.ToLower(v.text) {
		case "true":
			v.flag = true
		case "false":
		default:
			err = fmt.Errorf("must be true or false")
		}
	case Short:
		v.num, err = parseNumber(v.text, 16)
	case Int:
		v.num, err = parseNumber(v.text, 32)
	case Long:
		v.num, err = parseNumber(v.text, 64)
	case List:
		v.list = splitList(v.text)
	case String:
	default:
		panic(fmt.Sprintf("settings: no parser for type %d", t))
	}
	return v, err
}

func parseNumber(text string, bits int) (int64, error) {
	n, err := strconv.ParseInt(text, 10, bits)
	if err != nil {
		return 0, fmt.Errorf("must be a whole number of %d bits", bits)
	}
	return n, nil
}

// splitList splits at commas; empty text is an empty list.
func splitList(text string) []string {
	if text == "" {
		return nil
	}
	items := strings.Split(text, ",")
	for i := range items {
		items[i] = strings.TrimSpace(items[i])
	}
	return items
}

// scaled turns the value of a broker setting into that of the topic's setting.
func (v value) scaled(by int64) value {
	if by == 0 || v.num < 0 {
		return v
	}
	if v.num > math.MaxInt64/by {
		v.num = math.MaxInt64
	} else {
		v.num *= by
	}
	v.text = strconv.FormatInt(v.num, 10)
	return v
}

// in reads the number as a count of units; negative counts stay negative, and
// one that is too long for a Duration becomes the longest.
func (v value) in(unit time.Duration) time.Duration {
	if v.num > math.MaxInt64/int64(unit) {
		return math.MaxInt64
	}
	return max(time.Duration(v.num), -1) * unit
}

// check is a condition on values, and how to say it after "must be".
type check struct {
	valid string
	holds func(value) bool
}

// err says what is expected, if the value does not hold.
func (c check) err(v value) error {
	if c.holds == nil || c.holds(v) {
		return nil
	}
	return fmt.Errorf("must be %s", c.valid)
}

func atLeast(low int64) check {
	return check{fmt.Sprintf("at least %d", low), func(v value) bool { return v.num >= low }}
}

func between(low, high int64) check {
	return check{fmt.Sprintf("from %d to %d", low, high), func(v value) bool { return low <= v.num && v.num <= high }}
}

func oneOf(texts ...string) check {
	return check{"one of " + strings.Join(texts, ", "), func(v value) bool { return slices.Contains(texts, v.text) }}
}

// someOf accepts lists of at least one of the texts, each at most once.
func someOf(texts ...string) check {
	return check{"a list of " + strings.Join(texts, ", "), func(v value) bool {
		for i, item := range v.list {
			if !slices.Contains(texts, item) || slices.Contains(v.list[:i], item) {
				return false
			}
		}
		return len(v.list) > 0
	}}
}
