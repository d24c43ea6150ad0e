// Package cluster keeps the metadata of the cluster: its brokers, topics,
// partitions, settings and blocks of producer ids.
//
// The metadata is a state machine that is replicated with raft. A change is a
// command in the raft log (docs/format/metadata-log.md); applying a command to
// an [Image] gives the next Image and a result for each item of the command.
// Applying is a pure function: whatever a command needs to know of the world,
// such as the time or new ids, was put into it by the broker that proposed
// it. So all brokers come to the same image, and a snapshot of it has the same
// bytes on each.
//
// Every broker holds the whole image and answers from it without asking anyone.
package cluster

import (
	"context"
	"io"
	"log/slog"
	"time"

	"github.com/millrace/millrace/broker/internal/disk"
	"github.com/millrace/millrace/broker/internal/ident"
	"github.com/millrace/millrace/broker/internal/settings"
)

// Config is what a [Node] needs. All fields but those marked optional are
// required.
type Config struct {
	// FS holds the metadata log and its snapshots, in the folder Dir, which
	// is made if it is missing. One node at a time may have it open.
	FS  disk.FS
	Dir string
	// Broker is the id of this broker.
	Broker ident.BrokerID
	// ClusterID is the id that the cluster must have; a new cluster takes it.
	// Optional: a new cluster takes a random one.
	ClusterID string
	// Settings are this broker's; they give the topics' defaults.
	Settings *settings.Broker
	// Policy may refuse topics. Optional.
	Policy TopicPolicy
	// Now is the wall clock.
	Now func() time.Time
	// Rand is the source of new ids. It must be safe for concurrent use.
	Rand io.Reader
	// Log receives what happens to the metadata and to raft.
	Log *slog.Logger
	// Election is raft's time-out, at least 5 ms. Optional: 10 ms, which is
	// right for a lone voter.
	Election time.Duration
}

// TopicPolicy decides whether a topic may be made, besides what the broker
// itself demands. A non-nil error refuses the topic with POLICY_VIOLATION, and
// its text is what the client reads. It may be called concurrently.
type TopicPolicy func(name string, partitions int, replicas int, settings map[string]string) error

// Node is this broker's part in the cluster's metadata. Its methods may be
// called concurrently.
type Node struct{}

// Open starts the node and returns when it leads and its image holds all that
// was committed. It fails with [ErrWrongCluster] or [ErrWrongBroker] when the
// folder belongs to another, and with disk.ErrLocked when it is in use.
func Open(cfg Config) (*Node, error) { panic("not yet") }

// Close stops the node and waits for all it started. Calls that wait for a
// commit fail with [ErrClosed]. Closing twice is no error.
func (n *Node) Close() error { panic("not yet") }

// Image returns the newest image.
func (n *Node) Image() *Image { panic("not yet") }

// Subscribe has f called with each change of the image, in order and never
// twice at a time, first with an empty image as old. Changes that come while f
// runs are handed over as one. f may block; the calls that change metadata
// return only when all subscribers have seen their change, so f must not make
// such calls itself. The function returned ends the subscription; f does not
// run after it returned.
func (n *Node) Subscribe(f func(old, new *Image)) (cancel func()) { panic("not yet") }

// RegisterBroker makes this broker known with its addresses and returns its
// broker epoch. It is called once after each start.
func (n *Node) RegisterBroker(ctx context.Context, endpoints []Endpoint) (epoch int64, err error) {
	panic("not yet")
}

// Unset stands for a number of partitions or replicas that the caller leaves
// to the broker's settings.
const Unset = -1

// NewTopic describes a topic to be made.
type NewTopic struct {
	Name string
	// Partitions and Replicas are counts, or [Unset]. Both must be Unset when
	// there is an Assignment.
	Partitions int32
	Replicas   int16
	// Assignment gives the brokers of each partition by hand; nil: they are
	// chosen.
	Assignment map[int32][]ident.BrokerID
	// Settings are set on the topic, as text.
	Settings map[string]string
}

// TopicResult says what became of one topic of a request.
type TopicResult struct {
	Name string
	ID   ident.TopicID
	// Topic is the topic as it was made, or would be; nil if Err is not.
	Topic *Topic
	// Err is an [*Error], or what stopped the whole request.
	Err error
}

// CreateTopics makes topics, or only checks whether it could. It returns one
// result a topic, in their order. When it returns, all subscribers have seen
// the new topics.
func (n *Node) CreateTopics(ctx context.Context, topics []NewTopic, validateOnly bool) []TopicResult {
	panic("not yet")
}

// EnsureTopic returns the topic of that name, made with the broker's settings
// if there is none: an internal topic with what its coordinator needs, any
// other as auto.create.topics.enable has it. Making a topic that another call
// makes at the same time is no error.
func (n *Node) EnsureTopic(ctx context.Context, name string) (*Topic, error) { panic("not yet") }

// TopicRef names a topic by its name, or, if that is empty, by its id.
type TopicRef struct {
	Name string
	ID   ident.TopicID
}

// DeleteTopics deletes topics. It returns one result a topic, in their order,
// with name and id both where known.
func (n *Node) DeleteTopics(ctx context.Context, topics []TopicRef) []TopicResult {
	panic("not yet")
}

// MorePartitions asks for a topic to have more partitions.
type MorePartitions struct {
	Topic string
	// Count is the new number of partitions.
	Count int32
	// Assignment gives the brokers of each new partition; nil: they are
	// chosen.
	Assignment [][]ident.BrokerID
}

// CreatePartitions adds partitions to topics, or only checks whether it could.
// It returns one result a topic, in their order.
func (n *Node) CreatePartitions(ctx context.Context, topics []MorePartitions, validateOnly bool) []TopicResult {
	panic("not yet")
}

// SettingsChange is a change of a topic's own settings.
type SettingsChange struct {
	Topic string
	// Set gives settings new values; Unset takes them back to their defaults.
	Set   map[string]string
	Unset []string
}

// SetTopicSettings changes settings of topics, or only checks whether it
// could. It returns one result a topic, in their order.
func (n *Node) SetTopicSettings(ctx context.Context, changes []SettingsChange, validateOnly bool) []TopicResult {
	panic("not yet")
}

// ProducerIDs is a run of producer ids that nobody else gets.
type ProducerIDs struct {
	First ident.ProducerID
	Count int32
}

// AllocateProducerIDs takes the next block of producer ids for this broker.
func (n *Node) AllocateProducerIDs(ctx context.Context) (ProducerIDs, error) { panic("not yet") }

// DescribeTopic lists the settings of a topic, each with its value and source.
func (n *Node) DescribeTopic(t *Topic) []settings.Entry { panic("not yet") }

// TopicSettings returns the values of a topic's settings.
func (n *Node) TopicSettings(t *Topic) settings.Topic { panic("not yet") }
