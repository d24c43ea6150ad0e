package settings

// Entry is a setting together with its value.
type Entry struct {
	*Definition
	// Value is the value as text, when Set says that there is one.
	Value string
	Set   bool
	// Source is where the value was set.
	Source Source
	// From lists all the places where the setting or one of its synonyms is
	// set, the one that counts first.
	From []Origin
}

// Origin is one place where a setting is set.
type Origin struct {
	Name   string
	Value  string
	Source Source
}

// DescribeTopic lists every setting of a topic with its value and the places
// the value could come from, in order of their names.
func (b *Broker) DescribeTopic(own map[string]string, replicas int) []Entry {
	entries := make([]Entry, 0, len(b.tables.topic))
	for i := range b.tables.topic {
		d := &b.tables.topic[i].Definition
		e := Entry{Definition: d, Value: b.resolve(d, nil, replicas).text, Set: true}
		if text, ok := own[d.Name]; ok {
			e.Value = text
			e.From = append(e.From, Origin{d.Name, text, FromTopic})
		}
		for _, syn := range d.Synonyms {
			if text, ok := b.static[syn.Name]; ok {
				e.From = append(e.From, Origin{syn.Name, text, FromStatic})
			}
		}
		e.From = append(e.From, Origin{d.Name, defaultFor(d, replicas), FromDefault})
		e.Source = e.From[0].Source
		entries = append(entries, e)
	}
	return entries
}

// Describe lists every setting of the broker likewise.
func (b *Broker) Describe() []Entry {
	entries := make([]Entry, 0, len(b.tables.broker))
	for i := range b.tables.broker {
		d := &b.tables.broker[i].Definition
		e := Entry{Definition: d, Source: FromDefault}
		if text, ok := b.static[d.Name]; ok {
			e.From = append(e.From, Origin{d.Name, text, FromStatic})
		}
		if d.HasDefault {
			e.From = append(e.From, Origin{d.Name, d.Default, FromDefault})
		}
		if len(e.From) > 0 {
			e.Value, e.Set, e.Source = e.From[0].Value, true, e.From[0].Source
		}
		entries = append(entries, e)
	}
	return entries
}
