package settings

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

func newBroker(t *testing.T, static map[string]string) *Broker {
	t.Helper()
	b, err := NewBroker(static)
	if err != nil {
		t.Fatalf("NewBroker(%v): %v", static, err)
	}
	return b
}

func TestEveryDefaultIsValidAndDocumented(t *testing.T) {
	b := newBroker(t, nil)
	for _, scope := range []Scope{OfTopic, OfBroker} {
		defs := b.Definitions(scope)
		if !slices.IsSortedFunc(defs, func(a, b *Definition) int { return strings.Compare(a.Name, b.Name) }) {
			t.Errorf("%s settings are not sorted", scope)
		}
		for i, d := range defs {
			if i > 0 && defs[i-1].Name == d.Name {
				t.Errorf("%s setting %s is listed twice", scope, d.Name)
			}
			if d.Scope != scope {
				t.Errorf("%s: scope is %s, want %s", d.Name, d.Scope, scope)
			}
			if !strings.HasSuffix(d.Doc, ".") {
				t.Errorf("%s setting %s: the documentation is not a sentence: %q", scope, d.Name, d.Doc)
			}
			if !d.HasDefault {
				continue
			}
			if _, err := d.parse(d.Default); err != nil {
				t.Errorf("%s setting %s: default %q %v", scope, d.Name, d.Default, err)
			}
		}
	}
}

func TestTopicTakesItsOwnValueThenTheBrokersThenTheDefault(t *testing.T) {
	tests := []struct {
		name        string
		static, own map[string]string
		want        time.Duration
	}{
		{"default", nil, nil, 7 * 24 * time.Hour},
		{"hours", map[string]string{"log.retention.hours": "2"}, nil, 2 * time.Hour},
		{"minutes before hours", map[string]string{"log.retention.hours": "2", "log.retention.minutes": "5"}, nil, 5 * time.Minute},
		{"ms before minutes", map[string]string{"log.retention.ms": "7", "log.retention.minutes": "5"}, nil, 7 * time.Millisecond},
		{"own before broker's", map[string]string{"log.retention.ms": "7"}, map[string]string{"retention.ms": "9"}, 9 * time.Millisecond},
		{"unlimited hours", map[string]string{"log.retention.hours": "-1"}, nil, -time.Millisecond},
		{"unlimited", nil, map[string]string{"retention.ms": "-1"}, -time.Millisecond},
		{"longest", nil, map[string]string{"retention.ms": "9223372036854775807"}, math.MaxInt64},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := newBroker(t, test.static).Topic(test.own, 1)
			if err != nil {
				t.Fatal(err)
			}
			if got.Retention != test.want {
				t.Errorf("Retention = %v, want %v", got.Retention, test.want)
			}
		})
	}
}

func TestTypedValues(t *testing.T) {
	b := newBroker(t, map[string]string{
		"listeners":                 "PLAINTEXT://:0, internal://[::1]:9093",
		"auto.create.topics.enable": " FALSE ",
		"offsets.retention.minutes": "3",
		"message.max.bytes":         "2000000",
	})
	if b.AutoCreateTopics {
		t.Error("AutoCreateTopics = true, want false")
	}
	if want := []Listener{{"PLAINTEXT", "", 0}, {"INTERNAL", "::1", 9093}}; !slices.Equal(b.Listeners, want) {
		t.Errorf("Listeners = %v, want %v", b.Listeners, want)
	}
	if b.OffsetsRetention != 3*time.Minute {
		t.Errorf("OffsetsRetention = %v, want 3m", b.OffsetsRetention)
	}
	if b.TopicDefaults.MaxMessageBytes != 2000000 {
		t.Errorf("TopicDefaults.MaxMessageBytes = %d, want 2000000", b.TopicDefaults.MaxMessageBytes)
	}
	if b.TopicDefaults.Compression != AsProduced {
		t.Errorf("TopicDefaults.Compression = %d, want AsProduced", b.TopicDefaults.Compression)
	}
	got, err := b.Topic(map[string]string{
		"compression.type": "zstd",
		"cleanup.policy":   "compact, delete", "message.timestamp.type": "LogAppendTime", "batch.validation": "header",
	}, 1)
	if err != nil {
		t.Fatal(err)
	}
	if got.Cleanup != (Cleanup{Delete: true, Compact: true}) || got.TimestampType != LogAppendTime || got.Validation != ValidateHeader || got.Compression != 4 {
		t.Errorf("got %+v", got)
	}
}

func TestMinInsyncReplicasFollowsTheReplicasUnlessSet(t *testing.T) {
	tests := []struct {
		static, own map[string]string
		replicas    int
		want        int32
	}{
		{nil, nil, 1, 1},
		{nil, nil, 2, 1},
		{nil, nil, 3, 2},
		{map[string]string{"min.insync.replicas": "1"}, nil, 3, 1},
		{nil, map[string]string{"min.insync.replicas": "3"}, 3, 3},
	}
	for _, test := range tests {
		got, err := newBroker(t, test.static).Topic(test.own, test.replicas)
		if err != nil {
			t.Fatal(err)
		}
		if got.MinInsyncReplicas != test.want {
			t.Errorf("broker %v, topic %v, %d replicas: MinInsyncReplicas = %d, want %d",
				test.static, test.own, test.replicas, got.MinInsyncReplicas, test.want)
		}
	}
}

func TestUnknownNameIsRefusedWithTheNearest(t *testing.T) {
	b := newBroker(t, nil)
	tests := []struct{ name, nearest string }{
		{"retention.mss", "retention.ms"},
		{"retentions.ms", "retention.ms"},
		{"log.retention.hours", "retention.ms"},
		{"cleanup-policy", "cleanup.policy"},
		{"fush.messages", "flush.messages"},
		{"completely.different.thing", ""},
	}
	for _, test := range tests {
		err := b.ValidateTopic(map[string]string{test.name: "1"})
		unknown, ok := errors.AsType[*UnknownError](err)
		if !ok {
			t.Errorf("ValidateTopic(%s) = %v, want an UnknownError", test.name, err)
			continue
		}
		if unknown.Nearest != test.nearest {
			t.Errorf("ValidateTopic(%s) suggests %q, want %q", test.name, unknown.Nearest, test.nearest)
		}
	}
	_, err := NewBroker(map[string]string{"retention.ms": "1"})
	if want := `unknown broker setting "retention.ms"; did you mean "log.retention.ms"?`; err == nil || err.Error() != want {
		t.Errorf("NewBroker = %v, want %s", err, want)
	}
}

func TestInvalidValueIsRefusedWithWhatIsExpected(t *testing.T) {
	b := newBroker(t, nil)
	tests := []struct{ name, value, reason string }{
		{"retention.ms", "a week", "must be a whole number of 64 bits"},
		{"retention.ms", "-2", "must be at least -1"},
		{"segment.bytes", "2147483648", "must be a whole number of 32 bits"},
		{"segment.bytes", "1024", "must be at least 1048576"},
		{"cleanup.policy", "", "must be a list of delete, compact"},
		{"cleanup.policy", "delete,delete", "must be a list of delete, compact"},
		{"compression.type", "brotli", "must be one of producer, uncompressed, gzip, snappy, lz4, zstd"},
		{"min.insync.replicas", "0", "must be at least 1"},
	}
	for _, test := range tests {
		err := b.ValidateTopic(map[string]string{test.name: test.value})
		invalid, ok := errors.AsType[*InvalidError](err)
		if !ok {
			t.Errorf("%s = %q: %v, want an InvalidError", test.name, test.value, err)
			continue
		}
		if invalid.Name != test.name || invalid.Reason != test.reason {
			t.Errorf("%s = %q: %v, want reason %q", test.name, test.value, err, test.reason)
		}
	}
	for _, static := range []map[string]string{
		{"auto.create.topics.enable": "yes"},
		{"listeners": "localhost:9092"},
		{"listeners": "SSL://localhost:9092"},
		{"listeners": "A://:1,A://:2"},
		{"advertised.listeners": "PLAINTEXT://0.0.0.0:9092"},
		{"group.min.session.timeout.ms": "10", "group.max.session.timeout.ms": "9"},
		{"log.roll.hours": "0"},
	} {
		if _, err := NewBroker(static); err == nil {
			t.Errorf("NewBroker(%v) accepted it", static)
		} else if _, ok := errors.AsType[*InvalidError](err); !ok {
			t.Errorf("NewBroker(%v) = %v, want an InvalidError", static, err)
		}
	}
}

func TestAllBadSettingsAreReportedInOrder(t *testing.T) {
	err := newBroker(t, nil).ValidateTopic(map[string]string{"retention.ms": "x", "nonsense": "1", "flush.ms": "-7"})
	lines := strings.Split(err.Error(), "\n")
	if len(lines) != 3 || !strings.Contains(lines[0], "flush.ms") || !strings.Contains(lines[1], "nonsense") || !strings.Contains(lines[2], "retention.ms") {
		t.Errorf("got %q", lines)
	}
}

func TestDescribeShowsSourcesAndSynonyms(t *testing.T) {
	b := newBroker(t, map[string]string{"log.retention.minutes": "5", "log.retention.hours": "2"})
	find := func(entries []Entry, name string) Entry {
		i := slices.IndexFunc(entries, func(e Entry) bool { return e.Name == name })
		if i < 0 {
			t.Fatalf("%s is not described", name)
		}
		return entries[i]
	}
	broker := find(b.Describe(), "log.retention.minutes")
	if broker.Value != "5" || broker.Source != FromStatic || len(broker.From) != 1 {
		t.Errorf("log.retention.minutes: %+v", broker)
	}
	if unset := find(b.Describe(), "log.retention.ms"); unset.Set || unset.Source != FromDefault {
		t.Errorf("log.retention.ms: %+v", unset)
	}
	topic := find(b.DescribeTopic(nil, 1), "retention.ms")
	want := []Origin{{"log.retention.minutes", "5", FromStatic}, {"log.retention.hours", "2", FromStatic}, {"retention.ms", "604800000", FromDefault}}
	if topic.Value != "300000" || topic.Source != FromStatic || !slices.Equal(topic.From, want) {
		t.Errorf("retention.ms: %+v, want the value 300000 from %v", topic, want)
	}
	topic = find(b.DescribeTopic(map[string]string{"retention.ms": "1"}, 1), "retention.ms")
	if topic.Value != "1" || topic.Source != FromTopic || len(topic.From) != 4 {
		t.Errorf("retention.ms: %+v", topic)
	}
	if min := find(b.DescribeTopic(nil, 3), "min.insync.replicas"); min.Value != "2" || min.Source != FromDefault {
		t.Errorf("min.insync.replicas of 3 replicas: %+v", min)
	}
}

// What is accepted can be read, and what is not gives an error: nothing panics.
func FuzzValues(f *testing.F) {
	b, err := NewBroker(nil)
	if err != nil {
		f.Fatal(err)
	}
	for _, scope := range []Scope{OfTopic, OfBroker} {
		for _, d := range b.Definitions(scope) {
			f.Add(d.Name, d.Default)
		}
	}
	f.Add("listeners", "PLAINTEXT://[::1]:9092,B://x:1")
	f.Add("log.retention.hours", "2147483647")
	f.Fuzz(func(t *testing.T, name, text string) {
		given := map[string]string{name: text}
		if b.ValidateTopic(given) == nil {
			if _, err := b.Topic(given, 1); err != nil {
				t.Fatalf("%s = %q is valid but cannot be read: %v", name, text, err)
			}
			b.DescribeTopic(given, 1)
		}
		if other, err := NewBroker(given); err == nil {
			other.Describe()
			other.DescribeTopic(nil, 1)
		}
	})
}
