// Package topology describes a stream job as data: its operators and how records flow between them, cut into
// sub-topologies, with the topics and stores that each needs.
//
// The DSL of package streams fills a [Graph] while the user calls it. [Graph.Build] checks it and cuts it into
// [SubTopology]s: the parts that topics connect with each other. Within one, records pass as Go values on one
// goroutine; between two, they pass through an internal (repartition) topic. One sub-topology and one partition are a
// task, named by [TaskID]. How many partitions everything has depends on the cluster: [Topology.Plan] works it out from
// the partition counts of the job's input topics, and checks that topics which feed one store are partitioned alike.
//
// # Names
//
// Whatever outlives the process (stores, internal topics, folders of tasks) is named after the operator that owns it,
// whose name the user gave, and never after a position in the graph. So adding or removing an operator renames
// nothing of another:
//
//	store                  the operator's name
//	changelog topic        <application>-<store>-changelog
//	repartition topic      <application>-<operator>-repartition
//	sub-topology           the topic that it reads, the first one declared, without "<application>-"
//	task                   <sub-topology>_<partition>
package topology

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/millrace/millrace/streams/state"
)

// NodeID is a node's index in Topology.Nodes.
type NodeID int

// Kind tells the nodes apart that the runtime has to know; everything else about a node is code in the DSL.
type Kind int8

// The kinds of nodes.
const (
	Operator Kind = iota // computes; passes records on in memory
	Source               // reads Node.Topic
	Sink                 // writes to Node.Topic
)

// Node is one operator.
type Node struct {
	ID   NodeID
	Kind Kind
	// Op is the operator as the DSL calls it: "filter", "count".
	Op string
	// Name is the user's name for it, empty for most stateless ones.
	Name string
	// Label names the node to people, uniquely: op and name, or op and a number ("filter-2") without a name.
	// Numbers change when operators are added; nothing that lasts is named by them.
	Label string
	// Detail is shown after the label: a window, say.
	Detail string
	// Topic is read by a Source and written by a Sink, unless it Chooses.
	Topic string
	// LateTopic is where the operator writes what came too late, empty when nowhere.
	LateTopic string
	// Pure says that the node does nothing but pass on what it makes.
	Pure bool
	// Chooses says that a sink chooses its topic for each record.
	Chooses bool
	// Internal says that Topic is a repartition topic of this application.
	Internal bool
	// Inputs are the nodes whose records this one gets. Sources have none.
	Inputs []NodeID
	// Stores are the names of the stores that the node reads or writes.
	Stores []string
}

// Store is one state store, and its changelog.
type Store struct {
	state.Spec
	// Changelog is the topic that holds the store's changes, empty when it has none.
	Changelog string
}

// TopicKind is what an internal topic is for.
type TopicKind int8

// The kinds of internal topics.
const (
	Repartition TopicKind = iota
	Changelog
)

// Topic is an internal topic: one that belongs to the application and is made by it.
type Topic struct {
	Name string
	Kind TopicKind
	// Partitions is the number the user asked for, or 0: Plan derives it.
	Partitions int32
	// Configs are the topic's settings beside what the cluster sets by default.
	Configs map[string]string
}

// SubTopology is a part of the job that runs in one task per partition.
type SubTopology struct {
	// Name is unique in the topology, and a legal part of file names.
	Name string
	// Nodes in the order of definition, so inputs come before what they feed.
	Nodes []NodeID
	// Sources are the topics that it reads, in order of definition, internal ones included.
	Sources []string
	// Stores are the stores that its tasks own, in order of definition.
	Stores []string
	// Internal are the repartition topics it writes to.
	Internal []string
}

// Topology is a checked job. It is immutable.
type Topology struct {
	Application string
	Nodes       []Node
	Subs        []SubTopology
	Stores      []Store
	// Topics are the internal topics: first the repartition topics, then the changelogs, in order of definition.
	Topics []Topic
	// together lists, for each store, the source topics that feed it.
	together []group
}

// group is a set of source topics that must have equally many partitions, because they feed one store.
type group struct {
	store  string
	topics []string
}

// TaskID names a task: one sub-topology and one partition.
type TaskID struct {
	Sub       string
	Partition int32
}

// String formats the id as "sub_partition".
func (id TaskID) String() string { return id.Sub + "_" + strconv.Itoa(int(id.Partition)) }

// ParseTaskID is the inverse of TaskID.String.
func ParseTaskID(s string) (TaskID, error) {
	i := strings.LastIndexByte(s, '_')
	if i <= 0 {
		return TaskID{}, fmt.Errorf("task id %q: want <sub-topology>_<partition>", s)
	}
	p, err := strconv.ParseInt(s[i+1:], 10, 32)
	if err != nil || p < 0 || strconv.FormatInt(p, 10) != s[i+1:] {
		return TaskID{}, fmt.Errorf("task id %q: its partition %q is not a number from 0 up", s, s[i+1:])
	}
	return TaskID{Sub: s[:i], Partition: int32(p)}, nil
}

// Sub returns the sub-topology of that name.
func (t *Topology) Sub(name string) (*SubTopology, bool) {
	for i := range t.Subs {
		if t.Subs[i].Name == name {
			return &t.Subs[i], true
		}
	}
	return nil, false
}

// Store returns the store of that name.
func (t *Topology) Store(name string) (*Store, bool) {
	for i := range t.Stores {
		if t.Stores[i].Name == name {
			return &t.Stores[i], true
		}
	}
	return nil, false
}

// ExternalSources returns the topics that the job reads and does not make, in order of definition.
func (t *Topology) ExternalSources() []string {
	var topics []string
	for _, n := range t.Nodes {
		if n.Kind == Source && !n.Internal {
			topics = append(topics, n.Topic)
		}
	}
	return topics
}

// ExternalSinks returns the topics that the job writes and does not make, in order of definition. Not among them are those
// that are chosen for each record, which ChoosesTopics tells of, and those of dead letters.
func (t *Topology) ExternalSinks() []string {
	var topics []string
	add := func(topic string) {
		if topic != "" && !slices.Contains(topics, topic) {
			topics = append(topics, topic)
		}
	}
	for _, n := range t.Nodes {
		if n.Kind == Sink && !n.Internal {
			add(n.Topic)
		}
		add(n.LateTopic)
	}
	return topics
}

// ChoosesTopics tells whether a sink chooses its topic for each record.
func (t *Topology) ChoosesTopics() bool {
	return slices.ContainsFunc(t.Nodes, func(n Node) bool { return n.Chooses })
}
