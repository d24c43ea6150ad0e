package cluster

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/millrace/millrace/broker/internal/ident"
)

// history draws commands as nodes would propose them, some of which are
// refused. The same seed draws the same.
type history struct {
	rnd   *rand.Rand
	ids   []ident.TopicID
	index uint64
}

func newHistory(seed uint64) *history { return &history{rnd: rand.New(rand.NewPCG(seed, 1))} }

func (h *history) id() ident.TopicID {
	var id ident.TopicID
	for i := range id {
		id[i] = byte(h.rnd.Uint32())
	}
	return id
}

// known is the id of a topic that was proposed at some time, or a strange one.
func (h *history) known() ident.TopicID {
	if len(h.ids) == 0 || h.rnd.IntN(10) == 0 {
		return h.id()
	}
	return h.ids[h.rnd.IntN(len(h.ids))]
}

func (h *history) next() (command, moment) {
	h.index++
	at := moment{index: h.index, time: time.UnixMilli(1_700_000_000_000 + int64(h.index)).UTC()}
	broker := ident.BrokerID(h.rnd.IntN(3))
	switch h.rnd.IntN(8) {
	case 0:
		return &registerBroker{broker: broker, incarnation: h.id(), rack: "r", endpoints: []Endpoint{{"PLAINTEXT", "h", h.rnd.Int32N(100)}}}, at
	case 1:
		return &deleteTopics{ids: []ident.TopicID{h.known(), h.known()}}, at
	case 2:
		return &createPartitions{topics: []growth{{id: h.known(), from: 2, partitions: [][]ident.BrokerID{{broker}, {broker}}}}}, at
	case 3:
		return &changeTopicSettings{changes: []settingsPlan{{id: h.known(), set: map[string]string{"retention.ms": "1", "flush.ms": "2"}, unset: []string{"segment.ms"}}}}, at
	case 4:
		return &allocateProducerIDs{broker: broker, brokerEpoch: h.rnd.Int64N(20), count: 10}, at
	case 5:
		return &initCluster{clusterID: fmt.Sprint("cluster-", h.index)}, at
	}
	c := new(createTopics)
	for range 1 + h.rnd.IntN(3) {
		p := topicPlan{name: fmt.Sprintf("topic.%d", h.rnd.IntN(30)), id: h.id(), settings: map[string]string{"segment.ms": "7"},
			partitions: [][]ident.BrokerID{{0, 1}, {1, 2}}}
		if h.rnd.IntN(4) == 0 {
			p.name = collisionName(p.name)
		}
		c.topics, h.ids = append(c.topics, p), append(h.ids, p.id)
	}
	return c, at
}

func TestSameCommandsGiveTheSameBytes(t *testing.T) {
	for seed := range uint64(20) {
		h := newHistory(seed)
		direct, replayed := new(Image), new(Image)
		for range 300 {
			c, at := h.next()
			entry := encodeCommand(c, at.time)
			decoded, when, err := decodeCommand(entry)
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			if again := encodeCommand(decoded, when); !bytes.Equal(again, entry) {
				t.Fatalf("seed %d: command %d changes when it is decoded and encoded again", seed, at.index)
			}
			direct, _ = direct.apply(c, at)
			replayed, _ = replayed.apply(decoded, moment{at.index, when})

			// A broker that begins with a snapshot goes on as all others.
			if h.rnd.IntN(50) == 0 {
				if replayed, err = decodeImage(replayed.encode()); err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
			}
		}
		if len(direct.Topics()) == 0 || len(direct.Brokers()) == 0 {
			t.Fatalf("seed %d: the history made nothing", seed)
		}
		if !bytes.Equal(direct.encode(), replayed.encode()) {
			t.Errorf("seed %d: the images differ", seed)
		}
	}
}

func TestApplyingLeavesOlderImagesAsTheyWere(t *testing.T) {
	h := newHistory(99)
	image := new(Image)
	var images []*Image
	var bytesThen [][]byte
	for range 300 {
		images, bytesThen = append(images, image), append(bytesThen, image.encode())
		c, at := h.next()
		image, _ = image.apply(c, at)
		if err := image.checkOrder(); err != nil {
			t.Fatalf("after command %d: %v", at.index, err)
		}
		if len(image.topics) != len(image.byID) {
			t.Fatalf("after command %d: %d topics by name, %d by id", at.index, len(image.topics), len(image.byID))
		}
		for _, topic := range image.topics {
			if other, ok := image.TopicByID(topic.ID); !ok || other != topic {
				t.Fatalf("after command %d: topic %s is not found by its id", at.index, topic.Name)
			}
		}
	}
	for i, old := range images {
		if !bytes.Equal(old.encode(), bytesThen[i]) {
			t.Fatalf("image %d was changed later", i)
		}
	}
}

func TestNamesThatDifferInDotsCollide(t *testing.T) {
	create := func(names ...string) command {
		c := new(createTopics)
		for i, name := range names {
			c.topics = append(c.topics, topicPlan{name: name, id: ident.TopicID{byte(i), byte(len(name))}, partitions: [][]ident.BrokerID{{1}}})
		}
		return c
	}
	image, _ := new(Image).apply(create("a.b", "plain"), moment{index: 1})
	_, out := image.apply(create("a_b", "plain", "c.d", "c_d", "c.d", "e"), moment{index: 2})
	want := []*kerr.Error{kerr.InvalidTopicException, kerr.TopicAlreadyExists, nil, kerr.InvalidTopicException, kerr.TopicAlreadyExists, nil}
	for i, r := range out.topics {
		if want[i] == nil && r.Err != nil || want[i] != nil && !errors.Is(r.Err, want[i]) {
			t.Errorf("%s: %v, want %v", r.Name, r.Err, want[i])
		}
	}
}

func TestRestartOfABrokerBeginsNewEpochsWhereItLeads(t *testing.T) {
	image, _ := new(Image).apply(&createTopics{topics: []topicPlan{{name: "t", partitions: [][]ident.BrokerID{{1, 2}, {2, 1}}}}}, moment{index: 1})
	image, out := image.apply(&registerBroker{broker: 1}, moment{index: 7})
	if out.brokerEpoch != 7 {
		t.Errorf("broker epoch %d, want 7", out.brokerEpoch)
	}
	topic, _ := image.Topic("t")
	if p := topic.Partitions[0]; p.LeaderEpoch != 1 || p.Epoch != 1 || p.Leader != 1 {
		t.Errorf("partition led by the broker: %+v, want epochs 1", p)
	}
	if p := topic.Partitions[1]; p.LeaderEpoch != 0 || p.Epoch != 0 || p.Leader != 2 {
		t.Errorf("partition led by another: %+v, want epochs 0", p)
	}
}

func TestOldBrokerEpochGetsNoProducerIDs(t *testing.T) {
	image, _ := new(Image).apply(&registerBroker{broker: 1}, moment{index: 3})
	image, _ = image.apply(&registerBroker{broker: 1}, moment{index: 5})
	if _, out := image.apply(&allocateProducerIDs{broker: 1, brokerEpoch: 3, count: 10}, moment{index: 6}); !errors.Is(out.err, kerr.StaleBrokerEpoch) {
		t.Errorf("got %v, want STALE_BROKER_EPOCH", out.err)
	}
}

func TestPlacementIsBalanced(t *testing.T) {
	for brokers := 1; brokers <= 7; brokers++ {
		for replicas := 1; replicas <= brokers; replicas++ {
			for start := range brokers {
				ids := make([]ident.BrokerID, brokers)
				for i := range ids {
					ids[i] = ident.BrokerID(10 * i)
				}
				p := placement{brokers: ids, start: start, shift: start / 2}
				rounds := brokers * max(1, brokers-1)
				leads, holds := make(map[ident.BrokerID]int), make(map[ident.BrokerID]int)
				all := p.partitions(0, rounds, replicas)
				for i, assigned := range all {
					leads[assigned[0]]++
					for j, id := range assigned {
						holds[id]++
						if slices.Contains(assigned[:j], id) {
							t.Fatalf("%d brokers, %d replicas: partition %d is twice on broker %d", brokers, replicas, i, id)
						}
					}
				}
				for _, id := range ids {
					if leads[id] != rounds/brokers || holds[id] != replicas*rounds/brokers {
						t.Errorf("%d brokers, %d replicas: broker %d leads %d and holds %d of %d partitions", brokers, replicas, id, leads[id], holds[id], rounds)
					}
				}
				later := p.partitions(rounds/2, rounds, replicas)
				if !slices.EqualFunc(later, all[rounds/2:], slices.Equal) {
					t.Errorf("%d brokers, %d replicas: partitions added later break the pattern", brokers, replicas)
				}
			}
		}
	}
}

func TestTopicNames(t *testing.T) {
	for _, good := range []string{"a", "A-z_0.9", "...", "__consumer_offsets", string(bytes.Repeat([]byte("x"), 249))} {
		if err := CheckTopicName(good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	for _, bad := range []string{"", ".", "..", "a b", "a/b", "ä", "a\x00", string(bytes.Repeat([]byte("x"), 250))} {
		if err := CheckTopicName(bad); !errors.Is(err, kerr.InvalidTopicException) {
			t.Errorf("%q: %v, want INVALID_TOPIC_EXCEPTION", bad, err)
		}
	}
}

func FuzzDecodeCommand(f *testing.F) {
	h := newHistory(3)
	for range 30 {
		c, at := h.next()
		f.Add(encodeCommand(c, at.time))
	}
	f.Add([]byte{1, 99, 0, 0, 0, 0, 0, 0, 0, 0})
	f.Add([]byte{1, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Fuzz(func(t *testing.T, b []byte) {
		c, at, err := decodeCommand(b)
		if err != nil {
			return
		}
		again, when, err := decodeCommand(encodeCommand(c, at))
		if err != nil {
			t.Fatalf("what was decoded cannot be decoded again: %v", err)
		}
		one, _ := new(Image).apply(c, moment{1, at})
		two, _ := new(Image).apply(again, moment{1, when})
		if !bytes.Equal(one.encode(), two.encode()) {
			t.Fatal("the command decodes to two different ones")
		}
	})
}

func FuzzDecodeImage(f *testing.F) {
	h := newHistory(4)
	image := new(Image)
	f.Add(image.encode())
	for range 60 {
		c, at := h.next()
		image, _ = image.apply(c, at)
	}
	f.Add(image.encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := decodeImage(b)
		if err != nil {
			return
		}
		again, err := decodeImage(m.encode())
		if err != nil {
			t.Fatalf("what was decoded cannot be decoded again: %v", err)
		}
		if !bytes.Equal(again.encode(), m.encode()) {
			t.Fatal("the snapshot decodes to two different images")
		}
	})
}
