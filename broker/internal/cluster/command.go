package cluster

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kbin"

	"github.com/millrace/millrace/broker/internal/ident"
)

// The bytes of commands are described in docs/format/metadata-log.md.

// commandVersion is the version of commands that this release writes, and the
// newest that it reads.
const commandVersion = 1

// commandKind tells the bodies of commands apart.
type commandKind int8

const (
	kindInitCluster commandKind = iota + 1
	kindRegisterBroker
	kindCreateTopics
	kindDeleteTopics
	kindCreatePartitions
	kindChangeTopicSettings
	kindAllocateProducerIDs
)

// command is one change of the metadata.
type command interface {
	kind() commandKind
	appendBody(dst []byte) []byte
	readBody(r *kbin.Reader)
	// apply makes the next image. It is pure, and leaves m as it is.
	apply(m *Image, at moment) (*Image, outcome)
}

// moment says when a command is applied: its place in the log and the
// proposer's clock, to the millisecond.
type moment struct {
	index uint64
	time  time.Time
}

// outcome is what a command tells its proposer: a result for each item, in
// their order, or what it allocated. Only the proposer sees it.
type outcome struct {
	topics      []TopicResult
	brokerEpoch int64
	ids         ProducerIDs
	err         error
}

type initCluster struct{ clusterID string }

type registerBroker struct {
	broker      ident.BrokerID
	incarnation [16]byte
	rack        string
	endpoints   []Endpoint
}

type createTopics struct{ topics []topicPlan }

// topicPlan is a topic with everything decided.
type topicPlan struct {
	name       string
	id         ident.TopicID
	settings   map[string]string
	partitions [][]ident.BrokerID // replicas, the preferred leader first
}

type deleteTopics struct{ ids []ident.TopicID }

type createPartitions struct{ topics []growth }

type growth struct {
	id         ident.TopicID
	from       int32
	partitions [][]ident.BrokerID
}

type changeTopicSettings struct{ changes []settingsPlan }

type settingsPlan struct {
	id    ident.TopicID
	set   map[string]string
	unset []string
}

type allocateProducerIDs struct {
	broker      ident.BrokerID
	brokerEpoch int64
	count       int32
}

func (*initCluster) kind() commandKind         { return kindInitCluster }
func (*registerBroker) kind() commandKind      { return kindRegisterBroker }
func (*createTopics) kind() commandKind        { return kindCreateTopics }
func (*deleteTopics) kind() commandKind        { return kindDeleteTopics }
func (*createPartitions) kind() commandKind    { return kindCreatePartitions }
func (*changeTopicSettings) kind() commandKind { return kindChangeTopicSettings }
func (*allocateProducerIDs) kind() commandKind { return kindAllocateProducerIDs }

// newCommand returns an empty command of the kind, nil if there is none.
func newCommand(k commandKind) command {
	switch k {
	case kindInitCluster:
		return new(initCluster)
	case kindRegisterBroker:
		return new(registerBroker)
	case kindCreateTopics:
		return new(createTopics)
	case kindDeleteTopics:
		return new(deleteTopics)
	case kindCreatePartitions:
		return new(createPartitions)
	case kindChangeTopicSettings:
		return new(changeTopicSettings)
	case kindAllocateProducerIDs:
		return new(allocateProducerIDs)
	}
	return nil
}

// encodeCommand returns the bytes of a raft log entry.
func encodeCommand(c command, now time.Time) []byte {
	b := kbin.AppendInt8(nil, commandVersion)
	b = kbin.AppendInt8(b, int8(c.kind()))
	b = kbin.AppendInt64(b, now.UnixMilli())
	return c.appendBody(b)
}

// decodeCommand reads what encodeCommand wrote. A version or kind of a newer
// release is ErrNewerFormat.
func decodeCommand(b []byte) (command, time.Time, error) {
	r := &kbin.Reader{Src: b}
	version, kind, at := r.Int8(), r.Int8(), r.Int64()
	if !r.Ok() {
		return nil, time.Time{}, fmt.Errorf("metadata command of %d bytes: %w", len(b), errShort)
	}
	c := newCommand(commandKind(kind))
	if version < 1 || version > commandVersion || c == nil {
		return nil, time.Time{}, fmt.Errorf("metadata command of version %d and kind %d: %w; this release knows version %d",
			version, kind, ErrNewerFormat, commandVersion)
	}
	c.readBody(r)
	if err := complete(r); err != nil {
		return nil, time.Time{}, fmt.Errorf("metadata command of kind %d: %w", kind, err)
	}
	return c, time.UnixMilli(at).UTC(), nil
}

var (
	errShort    = errors.New("shorter than it must be")
	errTrailing = errors.New("followed by bytes that do not belong to it")
)

// complete says whether all was read and nothing was missing.
func complete(r *kbin.Reader) error {
	if !r.Ok() {
		return errShort
	}
	if len(r.Src) > 0 {
		return errTrailing
	}
	return nil
}

func (c *initCluster) appendBody(b []byte) []byte { return kbin.AppendCompactString(b, c.clusterID) }
func (c *initCluster) readBody(r *kbin.Reader)    { c.clusterID = r.CompactString() }

func (c *registerBroker) appendBody(b []byte) []byte {
	b = kbin.AppendInt32(b, int32(c.broker))
	b = kbin.AppendUuid(b, c.incarnation)
	b = kbin.AppendCompactString(b, c.rack)
	return appendEndpoints(b, c.endpoints)
}

func (c *registerBroker) readBody(r *kbin.Reader) {
	c.broker = ident.BrokerID(r.Int32())
	c.incarnation = r.Uuid()
	c.rack = r.CompactString()
	c.endpoints = readEndpoints(r)
}

func (c *createTopics) appendBody(b []byte) []byte {
	b = kbin.AppendCompactArrayLen(b, len(c.topics))
	for _, t := range c.topics {
		b = kbin.AppendCompactString(b, t.name)
		b = kbin.AppendUuid(b, t.id)
		b = appendSettings(b, t.settings)
		b = appendAssignments(b, t.partitions)
	}
	return b
}

func (c *createTopics) readBody(r *kbin.Reader) {
	c.topics = readArray(r, func() topicPlan {
		return topicPlan{name: r.CompactString(), id: r.Uuid(), settings: readSettings(r), partitions: readAssignments(r)}
	})
}

func (c *deleteTopics) appendBody(b []byte) []byte {
	b = kbin.AppendCompactArrayLen(b, len(c.ids))
	for _, id := range c.ids {
		b = kbin.AppendUuid(b, id)
	}
	return b
}

func (c *deleteTopics) readBody(r *kbin.Reader) {
	c.ids = readArray(r, func() ident.TopicID { return r.Uuid() })
}

func (c *createPartitions) appendBody(b []byte) []byte {
	b = kbin.AppendCompactArrayLen(b, len(c.topics))
	for _, g := range c.topics {
		b = kbin.AppendUuid(b, g.id)
		b = kbin.AppendInt32(b, g.from)
		b = appendAssignments(b, g.partitions)
	}
	return b
}

func (c *createPartitions) readBody(r *kbin.Reader) {
	c.topics = readArray(r, func() growth {
		return growth{id: r.Uuid(), from: r.Int32(), partitions: readAssignments(r)}
	})
}

func (c *changeTopicSettings) appendBody(b []byte) []byte {
	b = kbin.AppendCompactArrayLen(b, len(c.changes))
	for _, change := range c.changes {
		b = kbin.AppendUuid(b, change.id)
		b = appendSettings(b, change.set)
		b = kbin.AppendCompactArrayLen(b, len(change.unset))
		for _, name := range change.unset {
			b = kbin.AppendCompactString(b, name)
		}
	}
	return b
}

func (c *changeTopicSettings) readBody(r *kbin.Reader) {
	c.changes = readArray(r, func() settingsPlan {
		return settingsPlan{id: r.Uuid(), set: readSettings(r), unset: readArray(r, r.CompactString)}
	})
}

func (c *allocateProducerIDs) appendBody(b []byte) []byte {
	b = kbin.AppendInt32(b, int32(c.broker))
	b = kbin.AppendInt64(b, c.brokerEpoch)
	return kbin.AppendInt32(b, c.count)
}

func (c *allocateProducerIDs) readBody(r *kbin.Reader) {
	c.broker, c.brokerEpoch, c.count = ident.BrokerID(r.Int32()), r.Int64(), r.Int32()
}

// readArray reads a count and that many elements. The reader refuses counts
// beyond the bytes that are left, so a wrong one takes no more memory than the
// bytes are worth.
func readArray[T any](r *kbin.Reader, element func() T) []T {
	var out []T
	for range r.CompactArrayLen() {
		if !r.Ok() {
			return nil
		}
		out = append(out, element())
	}
	return out
}

func appendEndpoints(b []byte, endpoints []Endpoint) []byte {
	b = kbin.AppendCompactArrayLen(b, len(endpoints))
	for _, e := range endpoints {
		b = kbin.AppendCompactString(b, e.Listener)
		b = kbin.AppendCompactString(b, e.Host)
		b = kbin.AppendInt32(b, e.Port)
	}
	return b
}

func readEndpoints(r *kbin.Reader) []Endpoint {
	return readArray(r, func() Endpoint {
		return Endpoint{Listener: r.CompactString(), Host: r.CompactString(), Port: r.Int32()}
	})
}

func appendSettings(b []byte, settings map[string]string) []byte {
	b = kbin.AppendCompactArrayLen(b, len(settings))
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		b = kbin.AppendCompactString(b, name)
		b = kbin.AppendCompactString(b, settings[name])
	}
	return b
}

func readSettings(r *kbin.Reader) map[string]string {
	type setting struct{ name, value string }
	read := readArray(r, func() setting { return setting{r.CompactString(), r.CompactString()} })
	settings := make(map[string]string, len(read))
	for _, s := range read {
		settings[s.name] = s.value
	}
	return settings
}

func appendAssignments(b []byte, partitions [][]ident.BrokerID) []byte {
	b = kbin.AppendCompactArrayLen(b, len(partitions))
	for _, replicas := range partitions {
		b = appendBrokers(b, replicas)
	}
	return b
}

func readAssignments(r *kbin.Reader) [][]ident.BrokerID {
	return readArray(r, func() []ident.BrokerID { return readBrokers(r) })
}

func appendBrokers(b []byte, brokers []ident.BrokerID) []byte {
	b = kbin.AppendCompactArrayLen(b, len(brokers))
	for _, id := range brokers {
		b = kbin.AppendInt32(b, int32(id))
	}
	return b
}

func readBrokers(r *kbin.Reader) []ident.BrokerID {
	return readArray(r, func() ident.BrokerID { return ident.BrokerID(r.Int32()) })
}
