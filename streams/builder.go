package streams

import (
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/millrace/millrace/sdk/serde"
	"github.com/millrace/millrace/streams/internal/task"
	"github.com/millrace/millrace/streams/internal/topology"
)

// Builder collects the operators of a job. Make one with [NewBuilder], call [Builder.Stream] and [Builder.Table] and the
// methods of what they return, and end with [Builder.Build]. A Builder belongs to one goroutine.
type Builder struct {
	graph  *topology.Graph
	inputs map[topology.NodeID]task.InputSpec
	built  bool
	// late is set when operators are added after Build.
	late bool
}

// NewBuilder begins a job. The application id names it in the cluster: it is the id of its consumer group and the prefix
// of its internal topics. Change it and the job starts anew, without its state. It has 1 to 100 of the characters that
// topics may have: letters, digits, '.', '_', '-'.
func NewBuilder(applicationID string) *Builder {
	return &Builder{graph: topology.NewGraph(applicationID), inputs: map[topology.NodeID]task.InputSpec{}}
}

// Build checks the job and returns its topology. All errors are returned, joined, each with the operator it is about. It is
// called once, at the end: what is added afterwards belongs to no topology.
func (b *Builder) Build() (*Topology, error) {
	b.begin()
	if b.built {
		if b.late {
			return nil, errors.New("operators were added after Build: build once, at the end")
		}
		return nil, errors.New("Build was called before: build once, at the end")
	}
	graph, err := b.graph.Build()
	if err != nil {
		return nil, fmt.Errorf("building the topology: %w", err)
	}
	b.built = true
	t := &Topology{graph: graph}
	for i := range graph.Subs {
		p := &task.Program{Topology: graph, Sub: &graph.Subs[i]}
		for _, id := range p.Sub.Nodes {
			if in, ok := b.inputs[id]; ok {
				p.Inputs = append(p.Inputs, in)
			}
		}
		t.programs = append(t.programs, p)
	}
	return t, nil
}

// begin makes a Builder that NewBuilder did not make fail in Build, for the application id that it lacks.
func (b *Builder) begin() {
	if b.graph == nil {
		*b = *NewBuilder("")
	}
}

// Topology is a checked job: what [New] runs and streamstest tests. It is immutable, and may run any number of times.
type Topology struct {
	graph    *topology.Topology
	programs []*task.Program
}

// String draws the topology as text: sub-topologies, their operators, stores and topics. The text depends on nothing but
// the job, so that a test can compare it with a golden copy: a difference shows a renamed store before it is deployed.
func (t *Topology) String() string { return t.graph.String() }

// Mermaid draws the topology as a Mermaid flowchart.
func (t *Topology) Mermaid() string { return t.graph.Mermaid() }

// Graph returns the topology as data, for the drivers of this module.
func (t *Topology) Graph() *topology.Topology { return t.graph }

// Programs returns what tasks execute, one program for each sub-topology, for the drivers of this module.
func (t *Topology) Programs() []*task.Program { return t.programs }

// mergeable checks a stream that is to be merged into n.
func (n *node[K, V]) mergeable(other *node[K, V]) bool {
	var err error
	switch {
	case other == nil:
		err = errors.New("merged with a zero value, which is no stream")
	case other.b != n.b:
		err = errors.New("merged with a stream of another Builder")
	}
	n.check(err)
	return err == nil
}

// push passes a key and value on to the next operator. The error ends the task: whatever concerns the record alone was
// dealt with by the operator where it happened. All kinds of streams use it: what a table passes on is a change[V], what
// Changes pass on an opt[V], and windowed ones have a window.Windowed[K] for a key.
type push[K, V any] func(key K, value V) error

// change is one row of a table changing.
type change[V any] struct {
	old    V
	had    bool
	new    V
	exists bool
}

// opt is a value that may be absent: a delete.
type opt[V any] struct {
	value   V
	present bool
}

// node is an operator that emits keys and values. It knows what it feeds; each task calls fan once to get typed closures.
type node[K, V any] struct {
	b    *Builder
	id   topology.NodeID
	name string // the label, for errors
	next []func(*task.Assembly) push[K, V]
}

// opening is what an operator is opened with, in each task.
type opening struct {
	*task.Context
	op *task.Op
	a  *task.Assembly
}

func newNode[K, V any](b *Builder, meta topology.Node) *node[K, V] {
	meta.Pure = slices.Contains(pureOps(), meta.Op)
	added := b.graph.Add(meta)
	return &node[K, V]{b: b, id: added.ID, name: added.Label}
}

// pureOps are the operators that do nothing but pass on what they make. Branches are not among them: one that nothing uses
// is how a job drops records.
func pureOps() []string {
	return []string{"filter", "filter-not", "map", "map-values", "flat-map", "flat-map-values", "select-key", "merge", "present"}
}

// connect adds an operator after from. Open makes its closure in each task: it gets what to call with its results.
func connect[K, V, K2, V2 any](from *node[K, V], meta topology.Node, open func(o opening, out push[K2, V2]) push[K, V]) *node[K2, V2] {
	meta.Inputs = append(meta.Inputs, from.id)
	n := newNode[K2, V2](from.b, meta)
	from.feed(n.id, func(a *task.Assembly) push[K, V] { return open(openingOf(a, n.id), n.fan(a)) })
	return n
}

// join adds a node that passes on what any of its inputs emits.
func join[K, V any](first *node[K, V], others []*node[K, V], op string) *node[K, V] {
	meta := topology.Node{Op: op}
	all := append([]*node[K, V]{first}, others...)
	for _, from := range all {
		meta.Inputs = append(meta.Inputs, from.id)
	}
	n := newNode[K, V](first.b, meta)
	for _, from := range all {
		from.feed(n.id, n.fan)
	}
	return n
}

// feed makes the node pass its records to node id too, which is opened once a task, however many feed it.
func (n *node[K, V]) feed(id topology.NodeID, open func(*task.Assembly) push[K, V]) {
	if n.b.built {
		n.b.late = true
		return
	}
	n.next = append(n.next, func(a *task.Assembly) push[K, V] {
		return a.Once(id, func() any { return open(a) }).(push[K, V])
	})
}

// fan opens what the node feeds, and returns what passes a record to all of it.
func (n *node[K, V]) fan(a *task.Assembly) push[K, V] {
	outs := make([]push[K, V], len(n.next))
	for i, open := range n.next {
		outs[i] = open(a)
	}
	switch len(outs) {
	case 0:
		return func(K, V) error { return nil }
	case 1:
		return outs[0]
	}
	return func(k K, v V) error {
		for _, out := range outs {
			if err := out(k, v); err != nil {
				return err
			}
		}
		return nil
	}
}

func openingOf(a *task.Assembly, id topology.NodeID) opening {
	return opening{Context: a.Context(), op: a.Op(id), a: a}
}

// claim reserves the operator's name.
func (n *node[K, V]) claim(name string) { n.b.graph.Claim(n.name, name) }

// require records an error when a function that an operator needs is nil.
func (n *node[K, V]) require(given bool) {
	if !given {
		n.b.graph.Fail(n.name, errors.New("its function is nil"))
	}
}

// argument records an error when an argument that an operator needs is nil.
func (n *node[K, V]) argument(name string, isNil bool) {
	if isNil {
		n.b.graph.Fail(n.name, fmt.Errorf("its argument %s is nil", name))
	}
}

// check records the error of an operator, if there is one.
func (n *node[K, V]) check(err error) {
	if err != nil {
		n.b.graph.Fail(n.name, err)
	}
}

// reported returns what stands for a serde behind the operator that has reported it missing, so that the next does not again.
func reported[T any](s serde.Serde[T]) serde.Serde[T] {
	if s == nil {
		return missing[T]{}
	}
	return s
}

// missing encodes nothing: with one in it, a job is not built.
type missing[T any] struct{}

func (missing[T]) Append(dst []byte, _ T) ([]byte, error) { return dst, errMissing }
func (missing[T]) Decode([]byte) (v T, err error)         { return v, errMissing }

var errMissing = errors.New("there is no serde")

// need records an error when an operator needs a serde that the stream does not have.
func need[T any](b *Builder, label string, s serde.Serde[T], part serde.Part) {
	if s == nil {
		b.graph.Fail(label, fmt.Errorf("there is no serde for the %v type %v: set it with With before this operator", part, reflect.TypeFor[T]()))
	}
}

// carry returns the serde that a stream of T2 has when it came from one of T: the same, if the type is, or an obvious one.
func carry[T, T2 any](s serde.Serde[T]) serde.Serde[T2] {
	if same, ok := s.(serde.Serde[T2]); ok {
		return same
	}
	obvious, _ := serde.Default[T2]()
	return obvious
}

// same returns s, or o when s is nil.
func same[T any](s, o serde.Serde[T]) serde.Serde[T] {
	if s == nil {
		return o
	}
	return s
}
