package settings

import (
	"slices"
	"strings"
)

// tables are the rows of both scopes, in order of their names.
type tables struct {
	topic  []topicRow
	broker []brokerRow
}

func newTables() *tables {
	t := &tables{topic: topicTable(), broker: brokerTable()}
	for i := range t.topic {
		row := &t.topic[i].Definition
		row.Scope, row.Dynamic, row.HasDefault, row.Valid = OfTopic, true, true, row.check.valid
		for _, d := range synonymDefinitions(row) {
			t.broker = append(t.broker, brokerRow{Definition: d})
		}
	}
	for i := range t.broker {
		row := &t.broker[i].Definition
		row.Scope, row.Valid = OfBroker, row.check.valid
		row.HasDefault = row.HasDefault || row.Default != ""
	}
	slices.SortFunc(t.topic, func(a, b topicRow) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(t.broker, func(a, b brokerRow) int { return strings.Compare(a.Name, b.Name) })
	return t
}

// definitions lists the definitions of a scope in order of their names.
func (t *tables) definitions(of Scope) []*Definition {
	var defs []*Definition
	if of == OfTopic {
		for i := range t.topic {
			defs = append(defs, &t.topic[i].Definition)
		}
		return defs
	}
	for i := range t.broker {
		defs = append(defs, &t.broker[i].Definition)
	}
	return defs
}

// find returns the definition of that name.
func (t *tables) find(of Scope, name string) (*Definition, bool) {
	if of == OfTopic {
		i, ok := slices.BinarySearchFunc(t.topic, name, func(r topicRow, n string) int { return strings.Compare(r.Name, n) })
		if !ok {
			return nil, false
		}
		return &t.topic[i].Definition, true
	}
	i, ok := slices.BinarySearchFunc(t.broker, name, func(r brokerRow, n string) int { return strings.Compare(r.Name, n) })
	if !ok {
		return nil, false
	}
	return &t.broker[i].Definition, true
}

// nearest returns the known name that was probably meant: the counterpart in
// this scope of a setting of the other one, or else the name that takes the
// fewest edits, if they are few for its length.
func (t *tables) nearest(of Scope, name string) string {
	for i := range t.topic {
		row := &t.topic[i].Definition
		if of == OfBroker && row.Name == name {
			return row.Synonyms[0].Name
		}
		for _, syn := range row.Synonyms {
			if of == OfTopic && syn.Name == name {
				return row.Name
			}
		}
	}
	best, bestEdits := "", max(2, len(name)/3)+1
	for _, d := range t.definitions(of) {
		if n := edits(name, d.Name); n < bestEdits {
			best, bestEdits = d.Name, n
		}
	}
	return best
}

// edits counts the insertions, deletions and replacements of bytes that turn a
// into b (the Levenshtein distance).
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}
