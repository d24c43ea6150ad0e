package topology

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/streams/state"
)

// parse makes a graph from a script, one node a line:
//
//	name = source topic
//	name = op input... [store=x]
//	name = repartition input [partitions=n]
//	sink input topic
func parse(t *testing.T, script string) *Graph {
	t.Helper()
	g := NewGraph("app")
	nodes := map[string]NodeID{}
	for line := range strings.Lines(script) {
		f := strings.Fields(line)
		if len(f) == 0 {
			continue
		}
		if f[0] == "sink" {
			g.Add(Node{Kind: Sink, Op: "to", Name: f[2], Topic: f[2], Inputs: []NodeID{nodes[f[1]]}})
			continue
		}
		name, op, args := f[0], f[2], f[3:]
		n := Node{Op: op, Name: name}
		var stores []string
		partitions := int32(0)
		for _, a := range args {
			if store, ok := strings.CutPrefix(a, "store="); ok {
				stores = append(stores, store)
			} else if p, ok := strings.CutPrefix(a, "partitions="); ok {
				fmt.Sscan(p, &partitions)
			} else if op != "source" {
				n.Inputs = append(n.Inputs, nodes[a])
			}
		}
		switch op {
		case "source":
			n.Kind, n.Topic, n.Name = Source, args[0], args[0]
		case "repartition":
			topic := g.AddRepartition(op+" "+name, name, partitions)
			g.Add(Node{Kind: Sink, Op: op, Name: name, Topic: topic, Internal: true, Inputs: n.Inputs})
			n = Node{Kind: Source, Op: "repartitioned", Name: name, Topic: topic, Internal: true}
		}
		nodes[name] = g.Add(n).ID
		for _, s := range stores {
			g.AddStore(nodes[name], state.Spec{Name: s, Kind: state.KindKeyValue})
		}
	}
	return g
}

func TestSubTopologiesAndPartitions(t *testing.T) {
	tests := []struct {
		name, script string
		external     map[string]int32
		want         string // sub-topologies with their number of tasks; internal topics with their partitions; or the error
	}{
		{"one part", `
			a = source in
			b = count a store=n
			sink b out`, map[string]int32{"in": 3},
			"in*3; app-n-changelog=3"},
		{"two sources that do not meet", `
			a = source one
			b = source two
			sink a out`, map[string]int32{"one": 1, "two": 2},
			"one*1 two*2;"},
		{"a merge is one part, as wide as the widest", `
			a = source one
			b = source two
			c = merge a b`, map[string]int32{"one": 4, "two": 2},
			"one*4;"},
		{"a shared store joins parts", `
			a = source one
			b = source two
			c = process a store=s
			d = process b store=s`, map[string]int32{"one": 2, "two": 2},
			"one*2; app-s-changelog=2"},
		{"repartition takes the width before it", `
			a = source in
			r = repartition a
			c = count r store=n`, map[string]int32{"in": 5},
			"in*5 r-repartition*5; app-r-repartition=5 app-n-changelog=5"},
		{"or what was asked for", `
			a = source in
			r = repartition a partitions=2
			c = count r store=n`, map[string]int32{"in": 5},
			"in*5 r-repartition*2; app-r-repartition=2 app-n-changelog=2"},
		{"or what it must match", `
			a = source wide
			b = source narrow
			r = repartition a
			m = merge r b
			c = count m store=n
			q = repartition c`, map[string]int32{"wide": 8, "narrow": 2},
			"wide*8 narrow*2 q-repartition*2; app-r-repartition=2 app-q-repartition=2 app-n-changelog=2"},
		{"a chain", `
			a = source in
			r = repartition a
			s = repartition r
			u = repartition s`, map[string]int32{"in": 7},
			"in*7 r-repartition*7 s-repartition*7 u-repartition*7; app-r-repartition=7 app-s-repartition=7 app-u-repartition=7"},
		{"a loop through a merge", `
			a = source in
			r = repartition a
			m = merge a r`, map[string]int32{"in": 3},
			"in*3; app-r-repartition=3"},
		{"unequal before one store", `
			a = source one
			b = source two
			c = merge a b
			d = count c store=n`, map[string]int32{"one": 4, "two": 2},
			`store "n" is fed by topics "one" with 4 partitions and "two" with 2: make them equal, or put a Repartition before the store`},
		{"missing topics", `
			a = source one
			b = source two`, map[string]int32{},
			"the job reads topic \"one\", which does not exist\nthe job reads topic \"two\", which does not exist"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			topo, err := parse(t, test.script).Build()
			if err != nil {
				t.Fatal(err)
			}
			if got := planned(topo, test.external); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}

func planned(topo *Topology, external map[string]int32) string {
	p, err := topo.Plan(external)
	if err != nil {
		return err.Error()
	}
	var subs []string
	for _, s := range topo.Subs {
		n := 0
		for _, id := range p.Tasks {
			if id.Sub == s.Name {
				n++
			}
		}
		subs = append(subs, fmt.Sprintf("%s*%d", s.Name, n))
	}
	out := strings.Join(subs, " ") + ";"
	for _, topic := range topo.Topics {
		out += fmt.Sprintf(" %s=%d", topic.Name, p.Partitions[topic.Name])
	}
	return out
}

func TestPartsOfOneNameAreRefused(t *testing.T) {
	_, err := parse(t, `
		a = source x-repartition
		b = source in
		x = repartition b`).Build()
	if err == nil || !strings.Contains(err.Error(), "rename an operator") {
		t.Errorf("error %v, want one about the name", err)
	}
}

func TestInternalTopicsAreConfigured(t *testing.T) {
	g := NewGraph("app")
	n := g.Add(Node{Kind: Source, Op: "stream", Name: "in", Topic: "in"}).ID
	g.AddRepartition("x", "r", 0)
	g.AddStore(n, state.Spec{Name: "kv", Kind: state.KindKeyValue, ChangelogConfig: map[string]string{"segment.ms": "7"}})
	g.AddStore(n, state.Spec{Name: "w", Kind: state.KindWindow, Retention: time.Hour})
	g.AddStore(n, state.Spec{Name: "none", Kind: state.KindKeyValue, Unlogged: true})
	topo, err := g.Build()
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"app-r-repartition map[cleanup.policy:delete message.timestamp.type:CreateTime retention.ms:-1 segment.bytes:52428800]",
		"app-kv-changelog map[cleanup.policy:compact message.timestamp.type:LogAppendTime segment.ms:7]",
		"app-w-changelog map[cleanup.policy:compact,delete message.timestamp.type:LogAppendTime retention.ms:-1]",
	}
	var got []string
	for _, topic := range topo.Topics {
		got = append(got, fmt.Sprint(topic.Name, " ", topic.Configs))
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("topics\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestStoresOfOneNameMustBeAlike(t *testing.T) {
	g := NewGraph("app")
	n := g.Add(Node{Kind: Source, Op: "stream", Name: "in", Topic: "in"}).ID
	g.AddStore(n, state.Spec{Name: "s", Kind: state.KindKeyValue})
	g.AddStore(n, state.Spec{Name: "s", Kind: state.KindKeyValue, InMemory: true})
	if _, err := g.Build(); err == nil || !strings.Contains(err.Error(), `stream in: store "s" is declared twice, and differently`) {
		t.Errorf("error %v", err)
	}
}

func FuzzParseTaskID(f *testing.F) {
	for _, s := range []string{"in_0", "a_b_17", "_1", "x_", "x_-1", "x_01", "x_99999999999", "", "x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		id, err := ParseTaskID(s)
		if err == nil && id.String() != s {
			t.Errorf("%q was read as %+v, which is written %q", s, id, id)
		}
	})
}

func TestParseTaskID(t *testing.T) {
	id, err := ParseTaskID("a_b-c.d_17")
	if err != nil || id != (TaskID{"a_b-c.d", 17}) {
		t.Errorf("got %+v, %v", id, err)
	}
	for _, bad := range []string{"_1", "x_", "x_-1", "x_01", "x_99999999999", "", "x"} {
		if id, err := ParseTaskID(bad); err == nil {
			t.Errorf("%q was read as %+v", bad, id)
		}
	}
}
