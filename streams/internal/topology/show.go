package topology

import (
	"fmt"
	"strings"
)

// String draws the topology as text. It depends on the topology alone, so tests may compare it with a golden copy:
//
//	application activity
//
//	sub-topology access-log
//	  stream access-log
//	    filter-1
//	      group-by by-page -> activity-by-page-repartition
//
// What a node feeds is indented below it. A node with several inputs is drawn below the first, and the others point to
// it with "see".
func (t *Topology) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "application %s\n", t.Application)
	feeds := t.feeds()
	for _, sub := range t.Subs {
		fmt.Fprintf(&b, "\nsub-topology %s\n", sub.Name)
		for _, id := range sub.Nodes {
			if t.Nodes[id].Kind == Source {
				t.draw(&b, id, -1, 1, feeds)
			}
		}
		for _, name := range sub.Stores {
			s, _ := t.Store(name)
			fmt.Fprintf(&b, "  store %s\n", s.describe())
		}
	}
	return b.String()
}

func (t *Topology) draw(b *strings.Builder, id, from NodeID, depth int, feeds [][]NodeID) {
	n := t.Nodes[id]
	indent := strings.Repeat("  ", depth)
	if from >= 0 && n.Inputs[0] != from {
		fmt.Fprintf(b, "%ssee %s\n", indent, n.Label)
		return
	}
	fmt.Fprintf(b, "%s%s\n", indent, n.describe())
	for _, next := range feeds[id] {
		t.draw(b, next, id, depth+1, feeds)
	}
}

// feeds returns, for each node, those that have it as input.
func (t *Topology) feeds() [][]NodeID {
	feeds := make([][]NodeID, len(t.Nodes))
	for _, n := range t.Nodes {
		for _, in := range n.Inputs {
			feeds[in] = append(feeds[in], n.ID)
		}
	}
	return feeds
}

func (n Node) describe() string {
	s := n.Label
	if n.Detail != "" {
		s += " (" + n.Detail + ")"
	}
	if n.Kind == Sink && n.Topic != n.Name {
		s += " -> " + n.Topic
	}
	if n.Kind == Source && n.Topic != n.Name {
		s += " <- " + n.Topic
	}
	if len(n.Stores) > 0 {
		s += " [" + strings.Join(n.Stores, ", ") + "]"
	}
	return s
}

func (s *Store) describe() string {
	d := fmt.Sprintf("%s: %v", s.Name, s.Kind)
	if s.Retention > 0 {
		d += fmt.Sprintf(", retention %v", s.Retention)
	}
	if s.InMemory {
		d += ", in memory"
	}
	if s.Changelog == "" {
		return d + ", no changelog"
	}
	return d + ", changelog " + s.Changelog
}

// Mermaid draws the topology as a Mermaid flowchart, which many viewers of Markdown show as a picture: topics as
// stadiums, operators as boxes, stores as cylinders, a frame around each sub-topology.
func (t *Topology) Mermaid() string {
	var b strings.Builder
	b.WriteString("flowchart TD\n")
	topics := map[string]string{}
	var topicLines strings.Builder
	topic := func(name string) string {
		id, ok := topics[name]
		if !ok {
			id = fmt.Sprintf("t%d", len(topics))
			topics[name] = id
			fmt.Fprintf(&topicLines, "  %s([\"%s\"])\n", id, name)
		}
		return id
	}
	var edges strings.Builder
	for i, sub := range t.Subs {
		fmt.Fprintf(&b, "  subgraph s%d[\"%s\"]\n", i, sub.Name)
		for _, id := range sub.Nodes {
			n := t.Nodes[id]
			fmt.Fprintf(&b, "    n%d[\"%s\"]\n", id, n.Label)
			for _, in := range n.Inputs {
				fmt.Fprintf(&edges, "  n%d --> n%d\n", in, id)
			}
			switch {
			case n.Kind == Source:
				fmt.Fprintf(&edges, "  %s --> n%d\n", topic(n.Topic), id)
			case n.Kind == Sink && n.Topic != "":
				fmt.Fprintf(&edges, "  n%d --> %s\n", id, topic(n.Topic))
			}
			for _, s := range n.Stores {
				fmt.Fprintf(&edges, "  n%d -.- %s\n", id, storeID(i, sub, s))
			}
		}
		for _, s := range sub.Stores {
			fmt.Fprintf(&b, "    %s[(\"%s\")]\n", storeID(i, sub, s), s)
		}
		b.WriteString("  end\n")
	}
	return b.String() + topicLines.String() + edges.String()
}

func storeID(subIndex int, sub SubTopology, name string) string {
	for i, s := range sub.Stores {
		if s == name {
			return fmt.Sprintf("s%dst%d", subIndex, i)
		}
	}
	panic("topology: store " + name + " is not in the sub-topology of its node")
}
