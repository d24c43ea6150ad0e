package topology

import (
	"slices"
	"strings"
)

// cut divides the nodes into sub-topologies: nodes belong together when records pass between them in memory, or when
// they share a store.
func (t *Topology) cut(application string) {
	root := make([]NodeID, len(t.Nodes))
	for i := range root {
		root[i] = NodeID(i)
	}
	find := func(n NodeID) NodeID {
		for root[n] != n {
			n = root[n]
		}
		return n
	}
	// The smaller root wins, so that a part's root is its first node and parts come out in order of definition.
	union := func(a, b NodeID) {
		a, b = find(a), find(b)
		root[max(a, b)] = min(a, b)
	}
	storeUser := map[string]NodeID{}
	for _, n := range t.Nodes {
		for _, in := range n.Inputs {
			union(n.ID, in)
		}
		for _, s := range n.Stores {
			if user, ok := storeUser[s]; ok {
				union(n.ID, user)
			}
			storeUser[s] = n.ID
		}
	}
	index := map[NodeID]int{}
	for _, n := range t.Nodes {
		r := find(n.ID)
		i, ok := index[r]
		if !ok {
			i = len(t.Subs)
			index[r] = i
			t.Subs = append(t.Subs, SubTopology{})
		}
		t.Subs[i].take(n)
	}
	for i := range t.Subs {
		sub := &t.Subs[i]
		sub.Name = subName(application, t.Nodes, sub)
	}
}

func (s *SubTopology) take(n Node) {
	s.Nodes = append(s.Nodes, n.ID)
	switch {
	case n.Kind == Source:
		s.Sources = append(s.Sources, n.Topic)
	case n.Kind == Sink && n.Internal:
		s.Internal = append(s.Internal, n.Topic)
	}
	for _, name := range n.Stores {
		if !slices.Contains(s.Stores, name) {
			s.Stores = append(s.Stores, name)
		}
	}
}

// subName names a sub-topology by the first topic that it reads. Only internal topics lose the application's prefix.
func subName(application string, nodes []Node, s *SubTopology) string {
	for _, id := range s.Nodes {
		if n := nodes[id]; n.Kind == Source {
			if n.Internal {
				return strings.TrimPrefix(n.Topic, application+"-")
			}
			return n.Topic
		}
	}
	return ""
}

// findTogether finds, for each store, the source topics whose records reach it.
func (t *Topology) findTogether() {
	topics := make([][]string, len(t.Nodes)) // per node, the source topics upstream
	for _, n := range t.Nodes {              // inputs come first
		if n.Kind == Source {
			topics[n.ID] = []string{n.Topic}
		}
		for _, in := range n.Inputs {
			topics[n.ID] = union(topics[n.ID], topics[in])
		}
	}
	for _, s := range t.Stores {
		g := group{store: s.Name}
		for _, n := range t.Nodes {
			if slices.Contains(n.Stores, s.Name) {
				g.topics = union(g.topics, topics[n.ID])
			}
		}
		if len(g.topics) > 1 {
			t.together = append(t.together, g)
		}
	}
}

// union appends to a what of b it lacks.
func union(a, b []string) []string {
	a = slices.Clip(a)
	for _, s := range b {
		if !slices.Contains(a, s) {
			a = append(a, s)
		}
	}
	return a
}
