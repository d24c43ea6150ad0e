package api

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace/millrace/broker/internal/cluster"
	"github.com/millrace/millrace/broker/internal/disk"
	"github.com/millrace/millrace/broker/internal/ident"
	"github.com/millrace/millrace/broker/internal/settings"
	"github.com/millrace/millrace/broker/internal/wire"
)

// adminBroker is a service over a real metadata node, without logs: what the
// handlers about topics need.
type adminBroker struct {
	t       *testing.T
	service *Service
	node    *cluster.Node
}

func startAdmin(t *testing.T, static map[string]string, policy cluster.TopicPolicy) *adminBroker {
	t.Helper()
	s, err := settings.NewBroker(static)
	if err != nil {
		t.Fatal(err)
	}
	node, err := cluster.Open(cluster.Config{
		FS: disk.NewMemory(time.Now), Dir: "/metadata", Broker: 1, ClusterID: "test-cluster",
		Settings: s, Policy: policy, Now: time.Now, Rand: rand.Reader, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := node.RegisterBroker(t.Context(), []cluster.Endpoint{{Listener: "PLAINTEXT", Host: "broker.example", Port: 9092}}); err != nil {
		t.Fatal(err)
	}
	b := &adminBroker{t, New(Deps{BrokerID: 1, Cluster: node, Settings: s, Now: time.Now, Log: slog.New(slog.DiscardHandler)}), node}
	t.Cleanup(func() {
		b.service.Close()
		if err := node.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// ask sends a request in one version through the table, and decodes the reply
// as a client would.
func ask[R kmsg.Response](b *adminBroker, version int16, in kmsg.Request) R {
	b.t.Helper()
	in.SetVersion(version)
	row := b.service.rows[in.Key()]
	if version < row.min || version > row.max {
		b.t.Fatalf("%s version %d is not served", kmsg.NameForKey(in.Key()), version)
	}
	received := kmsg.RequestForKey(in.Key())
	received.SetVersion(version)
	if err := received.ReadFrom(in.AppendTo(nil)); err != nil {
		b.t.Fatal(err)
	}
	replies := make(chan Body, 1)
	r := &Request{Header: wire.Header{Key: in.Key(), Version: version}, Listener: "PLAINTEXT", Principal: Anonymous}
	row.handle(b.service, r, received, func(body Body) { replies <- body })
	select {
	case body := <-replies:
		out := in.ResponseKind()
		if err := out.ReadFrom(body.AppendTo(nil)); err != nil {
			b.t.Fatalf("the reply cannot be decoded: %v", err)
		}
		return out.(R)
	case <-time.After(10 * time.Second):
		b.t.Fatalf("%s was not answered", kmsg.NameForKey(in.Key()))
		panic("not reached")
	}
}

func (b *adminBroker) create(topics ...kmsg.CreateTopicsRequestTopic) []kmsg.CreateTopicsResponseTopic {
	b.t.Helper()
	in := kmsg.NewPtrCreateTopicsRequest()
	in.Topics = topics
	return ask[*kmsg.CreateTopicsResponse](b, 7, in).Topics
}

func topicRequest(name string, partitions int32, replicas int16, config ...string) kmsg.CreateTopicsRequestTopic {
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = name, partitions, replicas
	for i := 0; i < len(config); i += 2 {
		c := kmsg.NewCreateTopicsRequestTopicConfig()
		c.Name, c.Value = config[i], &config[i+1]
		t.Configs = append(t.Configs, c)
	}
	return t
}

// code is the name of an error code, for readable failures.
func code(n int16) string {
	if n == 0 {
		return "NONE"
	}
	if err, ok := errors.AsType[*kerr.Error](kerr.ErrorForCode(n)); ok {
		return err.Message
	}
	return "?"
}

func TestCreateTopicsAnswersEachTopic(t *testing.T) {
	b := startAdmin(t, nil, func(name string, partitions, _ int, _ map[string]string) error {
		if partitions > 50 {
			return errors.New("too many partitions for this team")
		}
		return nil
	})
	b.create(topicRequest("taken", 1, 1), topicRequest("dotted.name", 1, 1))

	manual := topicRequest("manual", -1, -1)
	manual.ReplicaAssignment = []kmsg.CreateTopicsRequestTopicReplicaAssignment{{Partition: 0, Replicas: []int32{1}}, {Partition: 1, Replicas: []int32{1}}}
	gap := topicRequest("gap", -1, -1)
	gap.ReplicaAssignment = []kmsg.CreateTopicsRequestTopicReplicaAssignment{{Partition: 1, Replicas: []int32{1}}}
	stranger := topicRequest("stranger", -1, -1)
	stranger.ReplicaAssignment = []kmsg.CreateTopicsRequestTopicReplicaAssignment{{Partition: 0, Replicas: []int32{7}}}
	both := topicRequest("both", 1, -1)
	both.ReplicaAssignment = manual.ReplicaAssignment
	null := topicRequest("null", 1, 1)
	null.Configs = []kmsg.CreateTopicsRequestTopicConfig{{Name: "retention.ms"}}

	tests := []struct {
		topic   kmsg.CreateTopicsRequestTopic
		want    *kerr.Error // nil: made
		message string
	}{
		{topicRequest("good", 3, 1, "retention.ms", "1000"), nil, ""},
		{topicRequest("defaults", -1, -1), nil, ""},
		{manual, nil, ""},
		{topicRequest("taken", 1, 1), kerr.TopicAlreadyExists, "already exists"},
		{topicRequest("dotted_name", 1, 1), kerr.InvalidTopicException, "collides with existing topic: dotted.name"},
		{topicRequest("bad name", 1, 1), kerr.InvalidTopicException, "is invalid"},
		{topicRequest("", 1, 1), kerr.InvalidTopicException, "must not be empty"},
		{topicRequest(strings.Repeat("x", 250), 1, 1), kerr.InvalidTopicException, "249"},
		{topicRequest("__cluster_metadata", 1, 1), kerr.InvalidRequest, "prohibited"},
		{topicRequest("none", 0, 1), kerr.InvalidPartitions, "at least 1"},
		{topicRequest("too-many", 20_000, 1), kerr.PolicyViolation, "10000"},
		{topicRequest("no-replica", 1, 0), kerr.InvalidReplicationFactor, "at least 1"},
		{topicRequest("replicas", 1, 3), kerr.InvalidReplicationFactor, "only 1 broker(s)"},
		{topicRequest("value", 1, 1, "retention.ms", "soon"), kerr.InvalidConfig, "whole number"},
		{topicRequest("name", 1, 1, "retention.mss", "1"), kerr.InvalidConfig, `did you mean "retention.ms"`},
		{null, kerr.InvalidConfig, "Null value"},
		{gap, kerr.InvalidReplicaAssignment, "no partition 0"},
		{stranger, kerr.InvalidReplicaAssignment, "broker 7, which is not registered"},
		{both, kerr.InvalidRequest, "number of partitions was not set to -1"},
		{topicRequest("policy", 51, 1), kerr.PolicyViolation, "too many partitions for this team"},
		{topicRequest("twice", 1, 1), kerr.InvalidRequest, "Duplicate"},
		{topicRequest("twice", 1, 1), kerr.InvalidRequest, "Duplicate"},
	}
	var all []kmsg.CreateTopicsRequestTopic
	for _, test := range tests {
		all = append(all, test.topic)
	}
	for i, got := range b.create(all...) {
		test := tests[i]
		switch {
		case got.Topic != test.topic.Topic:
			t.Errorf("answer %d is for topic %q, want %q", i, got.Topic, test.topic.Topic)
		case test.want == nil && got.ErrorCode != 0:
			t.Errorf("%s: %s, want it made", got.Topic, code(got.ErrorCode))
		case test.want != nil && got.ErrorCode != test.want.Code:
			t.Errorf("%s: %s, want %s", got.Topic, code(got.ErrorCode), test.want.Message)
		case test.want != nil && !strings.Contains(*got.ErrorMessage, test.message):
			t.Errorf("%s: message %q, want one with %q", got.Topic, *got.ErrorMessage, test.message)
		}
		_, exists := b.node.Image().Topic(test.topic.Topic)
		if want := test.want == nil || test.want == kerr.TopicAlreadyExists; exists != want {
			t.Errorf("%s: exists is %v, want %v", got.Topic, exists, want)
		}
	}
}

func TestCreateTopicsDescribesWhatItMade(t *testing.T) {
	b := startAdmin(t, map[string]string{"num.partitions": "4"}, nil)
	got := b.create(topicRequest("events", -1, -1, "cleanup.policy", "compact"))[0]
	topic, _ := b.node.Image().Topic("events")
	if got.NumPartitions != 4 || got.ReplicationFactor != 1 || got.TopicID != topic.ID {
		t.Errorf("got %d partitions, %d replicas, id %v; want 4, 1, %v", got.NumPartitions, got.ReplicationFactor, got.TopicID, topic.ID)
	}
	i := slices.IndexFunc(got.Configs, func(c kmsg.CreateTopicsResponseTopicConfig) bool { return c.Name == "cleanup.policy" })
	if c := got.Configs[i]; *c.Value != "compact" || c.Source != int8(settings.FromTopic) {
		t.Errorf("cleanup.policy is %q from source %d, want compact from the topic", *c.Value, c.Source)
	}
}

func TestValidateOnlyMakesNothing(t *testing.T) {
	b := startAdmin(t, nil, nil)
	in := kmsg.NewPtrCreateTopicsRequest()
	in.Topics = []kmsg.CreateTopicsRequestTopic{topicRequest("maybe", 2, 1), topicRequest("bad name", 2, 1)}
	in.ValidateOnly = true
	got := ask[*kmsg.CreateTopicsResponse](b, 7, in).Topics
	if got[0].ErrorCode != 0 || got[0].NumPartitions != 2 || got[1].ErrorCode != kerr.InvalidTopicException.Code {
		t.Errorf("got %+v", got)
	}
	if n := len(b.node.Image().Topics()); n != 0 {
		t.Errorf("%d topics were made", n)
	}

	b.create(topicRequest("grows", 1, 1))
	more := kmsg.NewPtrCreatePartitionsRequest()
	more.Topics = []kmsg.CreatePartitionsRequestTopic{{Topic: "grows", Count: 3}}
	more.ValidateOnly = true
	if got := ask[*kmsg.CreatePartitionsResponse](b, 3, more).Topics[0]; got.ErrorCode != 0 {
		t.Errorf("CreatePartitions: %s", code(got.ErrorCode))
	}
	if topic, _ := b.node.Image().Topic("grows"); len(topic.Partitions) != 1 {
		t.Errorf("the topic has %d partitions, want 1", len(topic.Partitions))
	}
}

func TestCreatePartitions(t *testing.T) {
	b := startAdmin(t, nil, nil)
	b.create(topicRequest("a", 2, 1), topicRequest("b", 1, 1), topicRequest("c", 1, 1), topicRequest("d", 1, 1))
	assigned := func(name string, count int32, brokers ...[]int32) kmsg.CreatePartitionsRequestTopic {
		in := kmsg.CreatePartitionsRequestTopic{Topic: name, Count: count}
		for _, b := range brokers {
			in.Assignment = append(in.Assignment, kmsg.CreatePartitionsRequestTopicAssignment{Replicas: b})
		}
		return in
	}
	tests := []struct {
		in   kmsg.CreatePartitionsRequestTopic
		want *kerr.Error
	}{
		{assigned("a", 5), nil},
		{assigned("b", 2, []int32{1}), nil},
		{assigned("c", 1), kerr.InvalidPartitions},
		{assigned("d", 3, []int32{1}), kerr.InvalidReplicaAssignment},
		{assigned("nobody", 3), kerr.UnknownTopicOrPartition},
	}
	in := kmsg.NewPtrCreatePartitionsRequest()
	for _, test := range tests {
		in.Topics = append(in.Topics, test.in)
	}
	for i, got := range ask[*kmsg.CreatePartitionsResponse](b, 3, in).Topics {
		want := int16(0)
		if tests[i].want != nil {
			want = tests[i].want.Code
		}
		if got.ErrorCode != want || got.Topic != tests[i].in.Topic {
			t.Errorf("%s: %s, want %s", got.Topic, code(got.ErrorCode), code(want))
		}
	}
	for name, want := range map[string]int{"a": 5, "b": 2, "c": 1, "d": 1} {
		if topic, _ := b.node.Image().Topic(name); len(topic.Partitions) != want {
			t.Errorf("%s has %d partitions, want %d", name, len(topic.Partitions), want)
		}
	}
}

func TestDeleteTopics(t *testing.T) {
	b := startAdmin(t, nil, nil)
	b.create(topicRequest("a", 1, 1), topicRequest("b", 1, 1), topicRequest("c", 1, 1), topicRequest("d", 1, 1))
	id := func(name string) ident.TopicID { topic, _ := b.node.Image().Topic(name); return topic.ID }
	byName := func(name string) kmsg.DeleteTopicsRequestTopic {
		return kmsg.DeleteTopicsRequestTopic{Topic: &name}
	}
	byID := func(id ident.TopicID) kmsg.DeleteTopicsRequestTopic {
		return kmsg.DeleteTopicsRequestTopic{TopicID: id}
	}
	both := byName("d")
	both.TopicID = id("d")
	tests := []struct {
		in   kmsg.DeleteTopicsRequestTopic
		want *kerr.Error
	}{
		{byName("a"), nil},
		{byID(id("b")), nil},
		{byName("nobody"), kerr.UnknownTopicOrPartition},
		{byID(ident.TopicID{15: 9}), kerr.UnknownTopicID},
		{byName("c"), kerr.InvalidRequest}, // twice, once by name and once by id
		{byID(id("c")), kerr.InvalidRequest},
		{both, kerr.InvalidRequest},
		{kmsg.DeleteTopicsRequestTopic{}, kerr.InvalidRequest},
	}
	in := kmsg.NewPtrDeleteTopicsRequest()
	for _, test := range tests {
		in.Topics = append(in.Topics, test.in)
	}
	for i, got := range ask[*kmsg.DeleteTopicsResponse](b, 6, in).Topics {
		want := int16(0)
		if tests[i].want != nil {
			want = tests[i].want.Code
		}
		if got.ErrorCode != want {
			t.Errorf("answer %d: %s, want %s", i, code(got.ErrorCode), code(want))
		}
		if want != 0 && got.ErrorMessage == nil {
			t.Errorf("answer %d has no message", i)
		}
	}
	var left []string
	for _, topic := range b.node.Image().Topics() {
		left = append(left, topic.Name)
	}
	if want := []string{"c", "d"}; !slices.Equal(left, want) {
		t.Errorf("topics left are %v, want %v", left, want)
	}
}

func TestDeletionCanBeForbidden(t *testing.T) {
	b := startAdmin(t, map[string]string{"delete.topic.enable": "false"}, nil)
	b.create(topicRequest("a", 1, 1))
	in := kmsg.NewPtrDeleteTopicsRequest()
	in.TopicNames = []string{"a"}
	for version, want := range map[int16]*kerr.Error{2: kerr.InvalidRequest, 3: kerr.TopicDeletionDisabled} {
		if got := ask[*kmsg.DeleteTopicsResponse](b, version, in).Topics[0].ErrorCode; got != want.Code {
			t.Errorf("version %d: %s, want %s", version, code(got), want.Message)
		}
	}
}

func metadataRequest(names ...string) *kmsg.MetadataRequest {
	in := kmsg.NewPtrMetadataRequest()
	in.Topics = []kmsg.MetadataRequestTopic{}
	for i := range names {
		in.Topics = append(in.Topics, kmsg.MetadataRequestTopic{Topic: &names[i]})
	}
	return in
}

func TestMetadataInEveryVersion(t *testing.T) {
	b := startAdmin(t, nil, nil)
	b.create(topicRequest("b", 2, 1), topicRequest("a", 1, 1))
	row := b.service.rows[int16(kmsg.Metadata)]
	for version := row.min; version <= row.max; version++ {
		all := metadataRequest()
		if version > 0 {
			all.Topics = nil
		}
		got := ask[*kmsg.MetadataResponse](b, version, all)
		if len(got.Brokers) != 1 || got.Brokers[0].Host != "broker.example" || got.Brokers[0].Port != 9092 {
			t.Errorf("version %d: brokers %+v", version, got.Brokers)
		}
		if len(got.Topics) != 2 || *got.Topics[0].Topic != "a" || *got.Topics[1].Topic != "b" {
			t.Fatalf("version %d: topics %+v, want a and b", version, got.Topics)
		}
		if p := got.Topics[1].Partitions; len(p) != 2 || p[1].Partition != 1 || p[1].Leader != 1 || p[1].ErrorCode != 0 ||
			!slices.Equal(p[1].Replicas, []int32{1}) || !slices.Equal(p[1].ISR, []int32{1}) {
			t.Errorf("version %d: partitions %+v", version, p)
		}
		if version >= 1 && got.ControllerID != 1 {
			t.Errorf("version %d: controller %d, want 1", version, got.ControllerID)
		}
		if version >= 2 && *got.ClusterID != "test-cluster" {
			t.Errorf("version %d: cluster %q", version, *got.ClusterID)
		}
		if version >= 1 {
			if none := ask[*kmsg.MetadataResponse](b, version, metadataRequest()); len(none.Topics) != 0 {
				t.Errorf("version %d: %d topics for an empty list, want none", version, len(none.Topics))
			}
		}
	}
}

func TestMetadataFindsTopicsByID(t *testing.T) {
	b := startAdmin(t, nil, nil)
	b.create(topicRequest("a", 1, 1))
	topic, _ := b.node.Image().Topic("a")
	in := metadataRequest()
	in.Topics = []kmsg.MetadataRequestTopic{{TopicID: topic.ID}, {TopicID: [16]byte{1}}}
	got := ask[*kmsg.MetadataResponse](b, 12, in).Topics
	if got[0].ErrorCode != 0 || *got[0].Topic != "a" {
		t.Errorf("known id: %s", code(got[0].ErrorCode))
	}
	if got[1].ErrorCode != kerr.UnknownTopicID.Code || got[1].Topic != nil || got[1].TopicID != [16]byte{1} {
		t.Errorf("unknown id: %s, topic %v", code(got[1].ErrorCode), got[1].Topic)
	}
	name := "a"
	in.Topics = []kmsg.MetadataRequestTopic{{Topic: &name, TopicID: topic.ID}}
	if got := ask[*kmsg.MetadataResponse](b, 11, in).Topics[0].ErrorCode; got != kerr.InvalidRequest.Code {
		t.Errorf("id in version 11: %s, want INVALID_REQUEST", code(got))
	}
}

func TestMetadataMakesTopicsOnlyWhereAllowed(t *testing.T) {
	tests := []struct {
		name    string
		setting string
		allow   bool
		version int16
		want    *kerr.Error
	}{
		{"allowed", "true", true, 13, nil},
		{"old clients always allow", "true", false, 3, nil},
		{"forbidden by the client", "true", false, 13, kerr.UnknownTopicOrPartition},
		{"forbidden by the broker", "false", true, 13, kerr.UnknownTopicOrPartition},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			b := startAdmin(t, map[string]string{"auto.create.topics.enable": test.setting, "num.partitions": "3"}, nil)
			in := metadataRequest("new", "bad name", "new")
			in.AllowAutoTopicCreation = test.allow
			got := ask[*kmsg.MetadataResponse](b, test.version, in).Topics
			if got[1].ErrorCode != kerr.InvalidTopicException.Code {
				t.Errorf("bad name: %s, want INVALID_TOPIC_EXCEPTION", code(got[1].ErrorCode))
			}
			if test.want != nil {
				if got[0].ErrorCode != test.want.Code {
					t.Errorf("new: %s, want %s", code(got[0].ErrorCode), test.want.Message)
				}
				return
			}
			if got[0].ErrorCode != 0 || len(got[0].Partitions) != 3 || len(got) != 2 {
				t.Errorf("new: %s with %d partitions, %d topics in all; want 3, 2", code(got[0].ErrorCode), len(got[0].Partitions), len(got))
			}
		})
	}
}

func TestMetadataSaysWhyATopicCannotBeMade(t *testing.T) {
	b := startAdmin(t, map[string]string{"default.replication.factor": "3"}, nil)
	in := metadataRequest("new")
	in.AllowAutoTopicCreation = true
	if got := ask[*kmsg.MetadataResponse](b, 13, in).Topics[0].ErrorCode; got != kerr.InvalidReplicationFactor.Code {
		t.Errorf("got %s, want INVALID_REPLICATION_FACTOR", code(got))
	}
}

func TestMetadataOnAnotherListenerNamesNoLeader(t *testing.T) {
	b := startAdmin(t, nil, nil)
	b.create(topicRequest("a", 1, 1))
	topic, _ := b.node.Image().Topic("a")
	for version, want := range map[int16]*kerr.Error{5: kerr.LeaderNotAvailable, 6: kerr.ListenerNotFound} {
		r := &Request{Header: wire.Header{Version: version}, Listener: "OTHER"}
		p := describeTopic(b.node.Image(), topic, r).Partitions[0]
		if p.ErrorCode != want.Code || p.Leader != -1 {
			t.Errorf("version %d: %s and leader %d, want %s and -1", version, code(p.ErrorCode), p.Leader, want.Message)
		}
	}
}

func TestInternalTopicsAreMarked(t *testing.T) {
	b := startAdmin(t, nil, nil)
	if _, err := b.node.EnsureTopic(context.Background(), cluster.OffsetsTopic); err != nil {
		t.Fatal(err)
	}
	got := ask[*kmsg.MetadataResponse](b, 13, metadataRequest(cluster.OffsetsTopic)).Topics[0]
	if !got.IsInternal || len(got.Partitions) != 16 {
		t.Errorf("internal is %v with %d partitions, want true with 16", got.IsInternal, len(got.Partitions))
	}
	topic, _ := b.node.Image().Topic(cluster.OffsetsTopic)
	if got := b.node.TopicSettings(topic).Cleanup; got != (settings.Cleanup{Compact: true}) {
		t.Errorf("cleanup is %+v, want compact", got)
	}
}

func TestAuthorizedOperationsAreGivenWhenAskedFor(t *testing.T) {
	b := startAdmin(t, nil, nil)
	b.create(topicRequest("a", 1, 1))
	in := metadataRequest("a")
	got := ask[*kmsg.MetadataResponse](b, 10, in)
	if got.AuthorizedOperations != -1<<31 || got.Topics[0].AuthorizedOperations != -1<<31 {
		t.Errorf("not asked for: %d and %d, want the smallest number", got.AuthorizedOperations, got.Topics[0].AuthorizedOperations)
	}
	in.IncludeClusterAuthorizedOperations, in.IncludeTopicAuthorizedOperations = true, true
	got = ask[*kmsg.MetadataResponse](b, 10, in)
	if got.AuthorizedOperations != 0b1_1111_1010_0000 || got.Topics[0].AuthorizedOperations != 0b1101_1111_1000 {
		t.Errorf("asked for: %b and %b", got.AuthorizedOperations, got.Topics[0].AuthorizedOperations)
	}
}

func TestDescribeConfigs(t *testing.T) {
	b := startAdmin(t, map[string]string{"log.retention.hours": "1"}, nil)
	b.create(topicRequest("a", 1, 1, "segment.ms", "5000"))
	in := kmsg.NewPtrDescribeConfigsRequest()
	in.IncludeSynonyms, in.IncludeDocumentation = true, true
	resource := func(kind kmsg.ConfigResourceType, name string, configs ...string) kmsg.DescribeConfigsRequestResource {
		return kmsg.DescribeConfigsRequestResource{ResourceType: kind, ResourceName: name, ConfigNames: configs}
	}
	in.Resources = []kmsg.DescribeConfigsRequestResource{
		resource(kmsg.ConfigResourceTypeTopic, "a", "segment.ms", "retention.ms"),
		resource(kmsg.ConfigResourceTypeTopic, "a"),
		resource(kmsg.ConfigResourceTypeBroker, "1", "log.retention.hours", "log.retention.ms"),
		resource(kmsg.ConfigResourceTypeBroker, ""),
		resource(kmsg.ConfigResourceTypeTopic, "nobody"),
		resource(kmsg.ConfigResourceTypeTopic, "bad name"),
		resource(kmsg.ConfigResourceTypeBroker, "2"),
		resource(kmsg.ConfigResourceTypeBroker, "one"),
		resource(kmsg.ConfigResourceTypeBrokerLogger, "1"),
	}
	got := ask[*kmsg.DescribeConfigsResponse](b, 4, in).Resources

	retention, segment := got[0].Configs[0], got[0].Configs[1]
	if len(got[0].Configs) != 2 || *segment.Value != "5000" || segment.Source != kmsg.ConfigSourceDynamicTopicConfig || segment.ReadOnly {
		t.Errorf("segment.ms of the topic: %+v", segment)
	}
	if *retention.Value != "3600000" || retention.Source != kmsg.ConfigSourceStaticBrokerConfig || retention.ConfigType != kmsg.ConfigTypeLong {
		t.Errorf("retention.ms of the topic: %+v", retention)
	}
	if syn := retention.ConfigSynonyms; len(syn) != 2 || syn[0].Name != "log.retention.hours" || *syn[0].Value != "1" || syn[1].Source != kmsg.ConfigSourceDefaultConfig {
		t.Errorf("synonyms of retention.ms: %+v", syn)
	}
	if retention.Documentation == nil || !strings.Contains(*retention.Documentation, "Valid values: at least -1.") {
		t.Errorf("documentation of retention.ms: %v", retention.Documentation)
	}
	if all := len(b.service.Settings.Definitions(settings.OfTopic)); len(got[1].Configs) != all {
		t.Errorf("%d settings of the topic, want all %d", len(got[1].Configs), all)
	}
	if c := got[2].Configs; len(c) != 2 || *c[0].Value != "1" || c[1].Value != nil || !c[0].ReadOnly {
		t.Errorf("settings of the broker: %+v", c)
	}
	if got[3].ErrorCode != 0 || len(got[3].Configs) != 0 {
		t.Errorf("all brokers: %s with %d settings, want none", code(got[3].ErrorCode), len(got[3].Configs))
	}
	for i, want := range []*kerr.Error{kerr.UnknownTopicOrPartition, kerr.InvalidTopicException, kerr.InvalidRequest, kerr.InvalidRequest, kerr.InvalidRequest} {
		if r := got[4+i]; r.ErrorCode != want.Code || r.ErrorMessage == nil {
			t.Errorf("%v %q: %s, want %s", r.ResourceType, r.ResourceName, code(r.ErrorCode), want.Message)
		}
	}
}

func TestDescribeCluster(t *testing.T) {
	b := startAdmin(t, map[string]string{"broker.rack": "here"}, nil)
	in := kmsg.NewPtrDescribeClusterRequest()
	in.IncludeClusterAuthorizedOperations = true
	for version := int16(0); version <= 2; version++ {
		got := ask[*kmsg.DescribeClusterResponse](b, version, in)
		if got.ErrorCode != 0 || got.ClusterID != "test-cluster" || got.ControllerID != 1 || len(got.Brokers) != 1 || *got.Brokers[0].Rack != "here" {
			t.Errorf("version %d: %+v", version, got)
		}
	}
	for kind, want := range map[int8]*kerr.Error{2: kerr.MismatchedEndpointType, 3: kerr.UnsupportedEndpointType} {
		in.EndpointType = kind
		if got := ask[*kmsg.DescribeClusterResponse](b, 2, in); got.ErrorCode != want.Code {
			t.Errorf("endpoint type %d: %s, want %s", kind, code(got.ErrorCode), want.Message)
		}
	}
}

func alteration(kind kmsg.ConfigResourceType, name string, changes ...kmsg.IncrementalAlterConfigsRequestResourceConfig) kmsg.IncrementalAlterConfigsRequestResource {
	r := kmsg.NewIncrementalAlterConfigsRequestResource()
	r.ResourceType, r.ResourceName, r.Configs = kind, name, changes
	return r
}

func change(op kmsg.IncrementalAlterConfigOp, name, value string) kmsg.IncrementalAlterConfigsRequestResourceConfig {
	c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	c.Op, c.Name, c.Value = op, name, &value
	return c
}

func TestIncrementalAlterConfigsChangesTopics(t *testing.T) {
	const (
		set, unset = kmsg.IncrementalAlterConfigOpSet, kmsg.IncrementalAlterConfigOpDelete
		add, take  = kmsg.IncrementalAlterConfigOpAppend, kmsg.IncrementalAlterConfigOpSubtract
		topic      = kmsg.ConfigResourceTypeTopic
	)
	b := startAdmin(t, nil, nil)
	b.create(topicRequest("t", 1, 1, "retention.ms", "1000", "segment.bytes", "2000000"))
	alter := func(validateOnly bool, resources ...kmsg.IncrementalAlterConfigsRequestResource) []int16 {
		in := kmsg.NewPtrIncrementalAlterConfigsRequest()
		in.Resources, in.ValidateOnly = resources, validateOnly
		var codes []int16
		for _, r := range ask[*kmsg.IncrementalAlterConfigsResponse](b, 1, in).Resources {
			if (r.ErrorCode == 0) != (r.ErrorMessage == nil) {
				t.Errorf("resource %s: code %d with message %v", r.ResourceName, r.ErrorCode, r.ErrorMessage)
			}
			codes = append(codes, r.ErrorCode)
		}
		return codes
	}
	own := func() map[string]string {
		found, _ := b.node.Image().Topic("t")
		return found.Settings
	}

	if codes := alter(true, alteration(topic, "t", change(set, "retention.ms", "5"))); codes[0] != 0 || own()["retention.ms"] != "1000" {
		t.Errorf("validate only: codes %v, settings %v", codes, own())
	}
	codes := alter(false, alteration(topic, "t", change(set, "retention.ms", "5"), change(unset, "segment.bytes", ""), change(add, "cleanup.policy", "compact")))
	if want := map[string]string{"retention.ms": "5", "cleanup.policy": "delete,compact"}; codes[0] != 0 || !maps.Equal(own(), want) {
		t.Errorf("codes %v, settings %v, want %v", codes, own(), want)
	}
	alter(false, alteration(topic, "t", change(take, "cleanup.policy", "delete")))
	if got := own()["cleanup.policy"]; got != "compact" {
		t.Errorf("after taking delete away the policy is %q", got)
	}

	before := own()
	codes = alter(false,
		alteration(topic, "none", change(set, "retention.ms", "5")),
		alteration(topic, "t", change(set, "retention.msec", "5")),
		alteration(topic, "t", change(set, "retention.ms", "6")),
		alteration(kmsg.ConfigResourceTypeBroker, "1", change(set, "num.partitions", "5")))
	want := []int16{kerr.UnknownTopicOrPartition.Code, kerr.InvalidConfig.Code, kerr.InvalidRequest.Code, kerr.InvalidRequest.Code}
	if !slices.Equal(codes, want) || !maps.Equal(own(), before) {
		t.Errorf("mistakes have codes %v, want %v; settings %v", codes, want, own())
	}
	for _, c := range []kmsg.IncrementalAlterConfigsRequestResourceConfig{change(set, "retention.ms", "soon"), change(add, "retention.ms", "1"),
		{Name: "retention.ms", Op: set}, change(set, "cleanup.policy", "burn")} {
		if codes := alter(false, alteration(topic, "t", c)); codes[0] != kerr.InvalidConfig.Code {
			t.Errorf("%s %s has code %d, want INVALID_CONFIG", c.Op, c.Name, codes[0])
		}
	}
	if codes := alter(false, alteration(topic, "t", change(set, "retention.ms", "1"), change(set, "retention.ms", "2"))); codes[0] != kerr.InvalidRequest.Code {
		t.Errorf("a setting given twice has code %d, want INVALID_REQUEST", codes[0])
	}
}
