package topology

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/millrace/millrace/streams/state"
)

// Graph is a topology under construction. Its methods collect errors for Build, so that a fluent caller need not stop
// at the first.
type Graph struct {
	application string
	nodes       []Node
	stores      []Store
	topics      []Topic
	// seen counts nodes by op, or by op and name; owners maps a taken name (of a store, topic, operator) to its taker's label.
	seen   map[string]int
	owners map[string]string
	errs   []error
}

// NewGraph begins the topology of an application, whose id is the prefix of its internal topics and its group's name.
func NewGraph(application string) *Graph {
	g := &Graph{application: application, seen: map[string]int{}, owners: map[string]string{}}
	if err := checkName("application id", application, 100); err != nil {
		g.errs = append(g.errs, err)
		g.application = "application" // so that each name made with it is not told to be wrong as well
	}
	return g
}

// Add adds a node, gives it id and label, and returns it. Inputs must exist already.
func (g *Graph) Add(n Node) *Node {
	n.ID = NodeID(len(g.nodes))
	if n.Name != "" {
		n.Label = n.Op + " " + n.Name
	} else {
		g.seen[n.Op]++
		n.Label = n.Op + "-" + strconv.Itoa(g.seen[n.Op])
	}
	// Sinks are named by their topics, which several may share.
	g.seen[n.Label]++
	if again := g.seen[n.Label]; n.Name != "" && again > 1 {
		n.Label += "-" + strconv.Itoa(again)
	}
	if n.Kind != Operator && !n.Internal && !n.Chooses {
		if err := checkName("topic", n.Topic, 249); err != nil {
			g.Fail(n.Label, err)
		}
	}
	if n.LateTopic != "" {
		if err := checkName("topic for late records", n.LateTopic, 249); err != nil {
			g.Fail(n.Label, err)
		}
	}
	if n.Kind == Source && n.Topic != "" {
		g.claim("source of topic "+n.Topic, n.Label, "a topic is read once; use its stream or table in several places instead")
	}
	g.nodes = append(g.nodes, n)
	return &g.nodes[n.ID]
}

// Claim reserves an operator's name. Operators that own stores or topics are told apart by name, so it must be new.
func (g *Graph) Claim(label, name string) {
	if err := checkName("operator name", name, 100); err != nil {
		g.Fail(label, err)
		return
	}
	g.claim("operator name "+name, label, "choose another name: state and internal topics are named after it")
}

func (g *Graph) claim(what, label, advice string) {
	if owner, taken := g.owners[what]; taken {
		g.Fail(label, fmt.Errorf("%s is taken by %s: %s", what, owner, advice))
		return
	}
	g.owners[what] = label
}

// Fail records an error of the operator with that label.
func (g *Graph) Fail(label string, err error) {
	g.errs = append(g.errs, fmt.Errorf("%s: %w", label, err))
}

// AddStore adds a store for a node. A store added by several nodes with equal specs is shared by them, which puts them
// into one sub-topology.
func (g *Graph) AddStore(n NodeID, spec state.Spec) {
	node := &g.nodes[n]
	node.Stores = append(node.Stores, spec.Name)
	if i := slices.IndexFunc(g.stores, func(s Store) bool { return s.Name == spec.Name }); i >= 0 {
		if !equalSpecs(g.stores[i].Spec, spec) {
			g.Fail(node.Label, fmt.Errorf("store %q is declared twice, and differently", spec.Name))
		}
		return
	}
	if err := spec.Validate(); err != nil {
		g.Fail(node.Label, err)
		return
	}
	store := Store{Spec: spec}
	if !spec.Unlogged {
		store.Changelog = g.application + "-" + spec.Name + "-changelog"
		g.checkInternal(node.Label, store.Changelog)
	}
	g.stores = append(g.stores, store)
}

// AddRepartition adds the repartition topic of an operator and returns its name.
func (g *Graph) AddRepartition(label, operator string, partitions int32) string {
	name := g.application + "-" + operator + "-repartition"
	g.checkInternal(label, name)
	g.topics = append(g.topics, Topic{Name: name, Kind: Repartition, Partitions: partitions, Configs: map[string]string{
		// The runtime deletes what is committed; until then nothing may expire, however old its event time.
		"cleanup.policy": "delete",
		"retention.ms":   "-1",
		// Deleting frees whole segments only, so they are small.
		"segment.bytes":          "52428800",
		"message.timestamp.type": "CreateTime",
	}})
	return name
}

func (g *Graph) checkInternal(label, topic string) {
	if err := checkName("topic", topic, 249); err != nil {
		g.Fail(label, err)
	}
}

func equalSpecs(a, b state.Spec) bool {
	return a.Name == b.Name && a.Kind == b.Kind && a.Retention == b.Retention && a.InMemory == b.InMemory &&
		a.Unlogged == b.Unlogged && maps.Equal(a.ChangelogConfig, b.ChangelogConfig)
}

// Build checks the graph and cuts it into sub-topologies. It returns every error, joined.
func (g *Graph) Build() (*Topology, error) {
	errs := slices.Clone(g.errs)
	if !slices.ContainsFunc(g.nodes, func(n Node) bool { return n.Kind == Source }) {
		errs = append(errs, errors.New("the topology reads no topic: begin with Builder.Stream or Builder.Table"))
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	t := &Topology{Application: g.application, Nodes: slices.Clone(g.nodes), Stores: slices.Clone(g.stores), Topics: slices.Clone(g.topics)}
	for _, s := range t.Stores {
		if s.Changelog != "" {
			t.Topics = append(t.Topics, Topic{Name: s.Changelog, Kind: Changelog, Configs: changelogConfigs(s.Spec)})
		}
	}
	errs = append(errs, t.checkTopics()...)
	errs = append(errs, t.checkUses()...)
	t.cut(g.application)
	for i, sub := range t.Subs {
		for _, before := range t.Subs[:i] {
			if before.Name == sub.Name {
				errs = append(errs, fmt.Errorf("topics %q and %q give two parts of the job one name, %q: rename an operator", before.Sources[0], sub.Sources[0], sub.Name))
			}
		}
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	t.findTogether()
	return t, nil
}

// changelogConfigs sets what docs/decisions/changelog-timestamps.md says: no broker deletes or refuses a change by a clock;
// the runtime deletes what stream time has expired, which a topic allows whose policy includes "delete".
func changelogConfigs(s state.Spec) map[string]string {
	c := map[string]string{"cleanup.policy": "compact", "message.timestamp.type": "LogAppendTime"}
	if s.Kind != state.KindKeyValue {
		c["cleanup.policy"] = "compact,delete"
		c["retention.ms"] = "-1"
	}
	maps.Copy(c, s.ChangelogConfig)
	return c
}

// checkName holds names to what Kafka allows in topics, which is fit for folders too.
func checkName(what, name string, lengthMax int) error {
	if name == "" || len(name) > lengthMax || name == "." || name == ".." {
		return fmt.Errorf("%s %q: must not be . or .. and have 1 to %d characters", what, name, lengthMax)
	}
	for _, c := range []byte(name) {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !letter && (c < '0' || c > '9') && c != '.' && c != '_' && c != '-' {
			return fmt.Errorf("%s %q: %q is not allowed: use letters, digits, '.', '_' and '-'", what, name, c)
		}
	}
	return nil
}
