package connector

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Check checks settings against a list of fields and returns what is wrong,
// in the order of the fields, then of the unknown settings' names; nil means
// nothing. Values of secret settings are not quoted.
//
// Hosts call it before anything starts, and Serve calls it again before
// Validate, Split and Open: authors need not.
func Check(fields []Field, settings map[string]string) []Problem {
	var problems []Problem
	for _, f := range fields {
		if f.Type == Map {
			problems = append(problems, f.checkMap(settings)...)
			continue
		}
		text, given := settings[f.Name]
		if !given {
			text = f.Default
		}
		if problem := f.check(text); problem != "" {
			problems = append(problems, Problem{Setting: f.Name, Message: problem})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		if !slices.ContainsFunc(fields, func(f Field) bool { return f.covers(name) }) {
			problems = append(problems, Problem{Setting: name, Message: "unknown setting" + suggestion(name, fields)})
		}
	}
	return problems
}

// covers reports whether the setting of that name is the field's.
func (f Field) covers(name string) bool {
	if f.Type == Map {
		return strings.HasPrefix(name, f.Name+".")
	}
	return f.Name == name
}

func (f Field) checkMap(settings map[string]string) []Problem {
	var problems []Problem
	found := false
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		if !f.covers(name) {
			continue
		}
		found = true
		if problem := f.checkItem(settings[name]); problem != "" {
			problems = append(problems, Problem{Setting: name, Message: problem})
		}
	}
	if f.Required && !found {
		problems = append(problems, Problem{Setting: f.Name, Message: "required: give at least one " + f.Name + ".<name>"})
	}
	return problems
}

// check returns what is wrong with text as the setting's value, or "".
func (f Field) check(text string) string {
	if text == "" {
		if f.Required {
			return "required, but not given"
		}
		return ""
	}
	if _, err := f.parse(text); err != nil {
		return f.quote(text) + err.Error()
	}
	items := []string{text}
	if f.Type == List {
		items = splitList(text)
	}
	for _, item := range items {
		if problem := f.checkItem(item); problem != "" {
			return problem
		}
	}
	return ""
}

// checkItem checks one text against Valid and Check.
func (f Field) checkItem(text string) string {
	if len(f.Valid) > 0 && !slices.Contains(f.Valid, text) {
		return f.quote(text) + "it is none of " + strings.Join(f.Valid, ", ")
	}
	if f.Check == nil {
		return ""
	}
	if err := f.Check(text); err != nil {
		return f.quote(text) + err.Error()
	}
	return ""
}

// quote returns text for the front of a message, unless it is secret.
func (f Field) quote(text string) string {
	if f.Secret {
		return ""
	}
	return fmt.Sprintf("%q: ", text)
}

// parse returns text as the Go value of the field's type: string, int64,
// float64, bool, time.Duration or []string. Empty text is the zero value.
func (f Field) parse(text string) (any, error) {
	switch f.Type {
	case Integer:
		return f.parseInt(text, "a whole number", func(s string) (int64, error) { return strconv.ParseInt(s, 10, 64) })
	case Size:
		return f.parseInt(text, "a size such as 1048576, 64KiB or 10MB", parseSize)
	case Duration:
		n, err := f.parseInt(text, `a duration such as "1m30s" or a number of milliseconds`, parseDuration)
		return time.Duration(n), err
	case Number:
		if text == "" {
			return float64(0), nil
		}
		n, err := strconv.ParseFloat(text, 64)
		switch {
		case err != nil:
			return float64(0), fmt.Errorf("it should be a number")
		case f.hasMin() && !(n >= float64(f.Min)), f.hasMax() && !(n <= float64(f.Max)):
			return float64(0), f.outside()
		}
		return n, nil
	case Boolean:
		switch text {
		case "true":
			return true, nil
		case "false", "":
			return false, nil
		}
		return false, fmt.Errorf("it should be true or false")
	case List:
		return splitList(text), nil
	}
	return text, nil
}

func (f Field) parseInt(text, want string, parse func(string) (int64, error)) (int64, error) {
	if text == "" {
		return 0, nil
	}
	n, err := parse(text)
	switch {
	case err != nil:
		return 0, fmt.Errorf("it should be %s", want)
	case f.hasMin() && n < f.Min, f.hasMax() && n > f.Max:
		return 0, f.outside()
	}
	return n, nil
}

// hasMin and hasMax say which bounds there are: a Min alone, from 1 on, leaves
// the other end open.
func (f Field) hasMin() bool { return f.Min != 0 || f.Max != 0 }
func (f Field) hasMax() bool { return f.Max != 0 || f.Min < 0 }

// outside is the error of a number beyond the bounds.
func (f Field) outside() error {
	if !f.hasMax() {
		return fmt.Errorf("it should be at least %s", f.bound(f.Min))
	}
	return fmt.Errorf("it should be from %s to %s", f.bound(f.Min), f.bound(f.Max))
}

func (f Field) bound(n int64) string {
	if f.Type == Duration {
		return time.Duration(n).String()
	}
	return strconv.FormatInt(n, 10)
}

func parseDuration(text string) (int64, error) {
	if ms, err := strconv.ParseInt(text, 10, 64); err == nil {
		const limit = int64(1<<63-1) / int64(time.Millisecond)
		if ms > limit || ms < -limit {
			return 0, strconv.ErrRange
		}
		return ms * int64(time.Millisecond), nil
	}
	d, err := time.ParseDuration(text)
	return int64(d), err
}

// sizeUnits are tried in this order, so that no unit hides one that it ends.
var sizeUnits = [...]struct {
	suffix string
	bytes  int64
}{
	{"kib", 1 << 10}, {"mib", 1 << 20}, {"gib", 1 << 30}, {"tib", 1 << 40},
	{"kb", 1e3}, {"mb", 1e6}, {"gb", 1e9}, {"tb", 1e12}, {"b", 1},
}

func parseSize(text string) (int64, error) {
	number, factor := strings.ToLower(text), int64(1)
	for _, u := range sizeUnits {
		if rest, ok := strings.CutSuffix(number, u.suffix); ok {
			number, factor = strings.TrimSpace(rest), u.bytes
			break
		}
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err == nil && (n < 0 || n > (1<<63-1)/factor) {
		err = strconv.ErrRange
	}
	return n * factor, err
}

func splitList(text string) []string {
	if strings.TrimSpace(text) == "" {
		return nil
	}
	items := strings.Split(text, ",")
	for i := range items {
		items[i] = strings.TrimSpace(items[i])
	}
	return items
}

// suggestion names the known setting that is nearest to an unknown name, if
// one is near enough to be meant.
func suggestion(name string, fields []Field) string {
	best, distance := "", 1+max(2, len(name)/3)
	for _, f := range fields {
		if d := editDistance(name, f.Name); d < distance {
			best, distance = f.Name, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %q?", best)
}

// editDistance is Levenshtein's, in bytes.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
