package streams

import (
	"errors"

	"github.com/millrace/millrace/streams/internal/task"
	"github.com/millrace/millrace/streams/internal/topology"
)

// Splitter deals the records of a stream out to branches: each record goes to the first whose condition holds.
type Splitter[K, V any] struct {
	from     Stream[K, V]
	n        *node[K, V]
	branches []branch[K, V]
	rest     *node[K, V]
}

type branch[K, V any] struct {
	keep func(K, V) bool
	n    *node[K, V]
}

// Split begins to split the stream. Conditions are tried in the order in which Branch is called.
func (s Stream[K, V]) Split() *Splitter[K, V] {
	sp := &Splitter[K, V]{from: s}
	sp.n = newNode[K, V](s.n.b, topology.Node{Op: "split", Inputs: []topology.NodeID{s.n.id}})
	s.n.feed(sp.n.id, sp.open)
	return sp
}

// Branch returns the stream of the records that keep returns true for, and no branch before it. The name is for people.
func (sp *Splitter[K, V]) Branch(name string, keep func(key K, value V) bool) Stream[K, V] {
	n := sp.add(name)
	n.require(keep != nil)
	sp.branches = append(sp.branches, branch[K, V]{keep, n})
	return sp.stream(n)
}

// Rest returns the stream of the records that go to no branch, those added later included. Without Rest, they are
// dropped.
func (sp *Splitter[K, V]) Rest(name string) Stream[K, V] {
	n := sp.add(name)
	if sp.rest != nil {
		n.b.graph.Fail(n.name, errors.New("the split has a rest already"))
	}
	sp.rest = n
	return sp.stream(n)
}

func (sp *Splitter[K, V]) add(name string) *node[K, V] {
	n := newNode[K, V](sp.n.b, topology.Node{Op: "branch", Name: name, Inputs: []topology.NodeID{sp.n.id}})
	n.claim(name)
	return n
}

func (sp *Splitter[K, V]) stream(n *node[K, V]) Stream[K, V] {
	s := sp.from
	s.n = n
	return s
}

func (sp *Splitter[K, V]) open(a *task.Assembly) push[K, V] {
	type arm struct {
		keep func(K, V) bool
		op   *task.Op
		out  push[K, V]
	}
	arms := make([]arm, len(sp.branches))
	for i, b := range sp.branches {
		arms[i] = arm{b.keep, a.Op(b.n.id), b.n.fan(a)}
	}
	rest := func(K, V) error { return nil }
	if sp.rest != nil {
		rest = sp.rest.fan(a)
	}
	return func(k K, v V) error {
		for i := range arms {
			arm := &arms[i]
			var keep bool
			if ok, err := arm.op.Guard(func() error { keep = arm.keep(k, v); return nil }); !ok {
				return err
			}
			if keep {
				return arm.out(k, v)
			}
		}
		return rest(k, v)
	}
}
