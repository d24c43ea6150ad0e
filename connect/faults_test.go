package connect

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millrace/millrace/broker/brokertest"
	"github.com/millrace/millrace/connect/config"
)

// produce writes values to a topic, in order, to partition 0.
func (b *bench) produce(topic string, values ...string) {
	b.Helper()
	var records []*kgo.Record
	for _, v := range values {
		records = append(records, &kgo.Record{Topic: topic, Key: []byte("k"), Value: []byte(v)})
	}
	b.send(records...)
}

// send writes records, each to the partition that it names.
func (b *bench) send(records ...*kgo.Record) {
	b.Helper()
	client, err := kgo.NewClient(append(b.cluster.ClientOptions(), kgo.AllowAutoTopicCreation(), kgo.ProducerBatchMaxBytes(4_000_000), kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	if err != nil {
		b.Fatal(err)
	}
	defer client.Close()
	if err := client.ProduceSync(b.Context(), records...).FirstErr(); err != nil {
		b.Errorf("producing to %s: %v", records[0].Topic, err)
	}
}

// numbersFrom returns the numbers of [from, end) as texts.
func numbersFrom(from, end int) []string {
	var out []string
	for i := from; i < end; i++ {
		out = append(out, strconv.Itoa(i))
	}
	return out
}

// unique returns lines in order of their first coming, each once.
func unique(lines []string) []string {
	seen := map[string]bool{}
	return slices.DeleteFunc(slices.Clone(lines), func(l string) bool {
		was := seen[l]
		seen[l] = true
		return was
	})
}

// A process that dies with accepted records takes them with it. Leaving the
// group must not commit them: they have to come again.
func TestAcceptedRecordsOfADeadSinkComeAgain(t *testing.T) {
	b := newBench(t)
	b.stop()
	b.commitInterval = time.Minute // so that nothing is flushed before the process dies
	b.start()
	b.create("out", map[string]string{"connector.class": "buffer", "topics": "in", "path": b.path("out"),
		"key.converter": "string", "value.converter": "string", "die.at": "50"})
	b.produce("in", numbersFrom(0, 50)...)
	b.await("the sink has accepted the first records", func() bool { return len(b.lines("out.accepted")) >= 50 })
	b.produce("in", numbersFrom(50, 60)...)
	b.await("the sink has accepted the last record", func() bool { return slices.Contains(b.lines("out.accepted"), "59") })
	b.stop() // flushes
	if got := unique(b.lines("out")); !slices.Equal(got, counted(60)) {
		t.Errorf("the file has %d different lines, want the 60 in order: %v", len(got), got)
	}
}

// A broker that is away for a while costs time, and nothing else.
func TestBrokerThatIsAwayFailsNoTask(t *testing.T) {
	t.Parallel() // it mostly waits
	for how, crash := range map[string]func(*brokertest.Cluster){
		"killed":    (*brokertest.Cluster).Kill,
		"power cut": func(c *brokertest.Cluster) { c.CutPower(1) },
	} {
		t.Run(how, func(t *testing.T) {
			b := newBench(t)
			b.source("in", 3000)
			b.sink("out", "numbers")
			b.await("some lines", func() bool { return len(b.lines("out")) > 200 })
			crash(b.cluster)
			time.Sleep(3 * time.Second) // long enough for clients to notice, and to give up if they do
			b.cluster.Start()
			b.awaitTask("in", Completed)
			b.await("the last line", func() bool { return slices.Contains(b.lines("out"), "2999") })
			if got := unique(b.lines("out")); !slices.Equal(got, counted(3000)) {
				t.Errorf("the file has %d different lines, want the 3000 in order", len(got))
			}
			b.await("the sink reports no trouble", func() bool { return b.awaitTask("out", Running).Trace == "" })
		})
	}
}

// However the cluster is, a worker stops in bounded time.
func TestWorkerStopsWhileTheBrokerIsAway(t *testing.T) {
	t.Parallel() // it mostly waits
	b := newBench(t)
	b.source("in", 0)
	b.sink("out", "numbers")
	b.await("some lines", func() bool { return len(b.lines("out")) > 200 })
	b.cluster.Kill()
	begun := time.Now()
	b.stop()
	if took := time.Since(begun); took > 2*stopTimeout {
		t.Errorf("stopping took %v", took)
	}
}

func (b *bench) topic(name string, settings map[string]string) {
	b.Helper()
	client, err := kgo.NewClient(b.cluster.ClientOptions()...)
	if err != nil {
		b.Fatal(err)
	}
	defer client.Close()
	values := map[string]*string{}
	for k, v := range settings {
		values[k] = &v
	}
	if _, err := kadm.NewClient(client).CreateTopic(b.Context(), 1, 1, values, name); err != nil {
		b.Fatal(err)
	}
}

// Brokers refuse a batch for one record in it. The others must not suffer.
func TestOneBadRecordOfASourceCostsOneRecord(t *testing.T) {
	b := newBench(t)
	b.topic("small", map[string]string{"max.message.bytes": "1000"})
	b.topic("large", map[string]string{"max.message.bytes": "4000000"})
	b.topic("compacted", map[string]string{"cleanup.policy": "compact"})
	k := "k"
	good := func(topic string, i int) givenRecord {
		return givenRecord{Topic: topic, Key: &k, Value: strconv.Itoa(i), Bytes: 200}
	}
	bad := map[string]givenRecord{ // by the topic whose batch they would spoil
		"small":     {Topic: "small", Bytes: 1000},
		"compacted": {Topic: "compacted"},
		"large":     {Topic: "large", Partition: 7},
		"other":     {Topic: "no/topic"},
	}
	var records []givenRecord
	for topic, r := range bad {
		for i := range 100 {
			records = append(records, good(topic, i))
		}
		records[len(records)-50] = r
	}
	create := func(name, tolerance string) {
		text, err := json.Marshal(records)
		if err != nil {
			t.Fatal(err)
		}
		b.create(name, map[string]string{"connector.class": "given", "records": string(text), "value.converter": "string", "errors.tolerance": tolerance})
	}
	create("tolerant", "all")
	if s := b.awaitTask("tolerant", Completed); s.Skipped != int64(len(bad)) {
		t.Errorf("the status tells of %d skipped records, want %d", s.Skipped, len(bad))
	}
	for topic := range bad {
		if got := b.end(topic); got != 99 {
			t.Errorf("topic %s has %d records, want the 99 good ones", topic, got)
		}
	}
	records = []givenRecord{good("small", 1), bad["small"]}
	create("strict", "none")
	if s := b.awaitTask("strict", Failed); !strings.Contains(s.Trace, "max.message.bytes") || !strings.Contains(s.Trace, "record 1") {
		t.Errorf("the trace is %q", s.Trace)
	}
}

func TestLargeRecordPassesUpToTheTopicsLimit(t *testing.T) {
	b := newBench(t)
	b.topic("large", map[string]string{"max.message.bytes": "4000000"})
	b.create("in", map[string]string{"connector.class": "given", "records": `[{"Topic":"large","Key":"k","Bytes":3900000}]`, "value.converter": "string"})
	b.awaitTask("in", Completed)
	if got := len(b.records("large", 1)[0].Value); got != 3_900_000 {
		t.Errorf("the record has %d bytes", got)
	}
	b.sink("out", "large")
	b.await("the line", func() bool { return len(b.lines("out")[0]) == 3_900_000 })
}

// Topics that someone else has made under which the worker would forget are
// refused, as Kafka Connect does.
func TestUnfitTopicsAreRefused(t *testing.T) {
	b := newBench(t)
	b.stop()
	b.topic("deleting", map[string]string{"cleanup.policy": "delete"})
	b.topic("both", map[string]string{"cleanup.policy": "compact,delete"})
	for _, topic := range []string{"deleting", "both"} {
		b.offsetTopic = topic
		if w, err := b.newWorker(); err == nil {
			w.Close()
			t.Errorf("a worker takes topic %s", topic)
		} else if !strings.Contains(err.Error(), topic) || !strings.Contains(err.Error(), "must have compact") {
			t.Errorf("the error is %v", err)
		}
	}
	b.offsetTopic = ""
	b.configTopic = "connect-offsets" // of five partitions
	if w, err := b.newWorker(); err == nil {
		w.Close()
		t.Error("a worker takes a configuration topic of five partitions")
	} else if !strings.Contains(err.Error(), "5 partitions") {
		t.Errorf("the error is %v", err)
	}
}

// However clients step on each other's toes, each gets a truthful answer, and
// the worker ends where the last change says.
func TestManyClientsChangeOneConnector(t *testing.T) {
	b := newBench(t)
	settings := map[string]string{"connector.class": "numbers", "topic": "numbers"}
	var created, existed atomic.Int64
	var clients sync.WaitGroup
	for range 8 {
		clients.Go(func() {
			switch _, err := b.worker.Create(t.Context(), "in", settings, TargetRunning); {
			case err == nil:
				created.Add(1)
			case errors.Is(err, ErrExists):
				existed.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	clients.Wait()
	if created.Load() != 1 || existed.Load() != 7 {
		t.Errorf("%d creations succeeded and %d were told that it exists", created.Load(), existed.Load())
	}
	for i := range 6 {
		clients.Go(func() {
			for j := range 8 {
				var err error
				switch (i + j) % 6 {
				case 0:
					err = b.worker.SetTarget(t.Context(), "in", TargetPaused)
				case 1:
					err = b.worker.SetTarget(t.Context(), "in", TargetRunning)
				case 2:
					err = b.worker.SetTarget(t.Context(), "in", TargetStopped)
				case 3:
					err = b.worker.Restart(t.Context(), "in", j%2 == 0)
				case 4:
					err = b.worker.Delete(t.Context(), "in")
				case 5:
					changed := maps.Clone(settings)
					changed["count"] = strconv.Itoa(1_000_000 + i*100 + j)
					_, _, err = b.worker.Put(t.Context(), "in", changed)
				}
				if err != nil && !errors.Is(err, ErrNotFound) {
					t.Error(err)
				}
			}
		})
	}
	clients.Wait()
	settings["count"] = "100"
	if _, _, err := b.worker.Put(t.Context(), "in", settings); err != nil {
		t.Fatal(err)
	}
	if err := b.worker.SetTarget(t.Context(), "in", TargetRunning); err != nil {
		t.Fatal(err)
	}
	b.awaitTask("in", Completed)
}

func TestConnectorIsBornInTheStateThatWasAskedFor(t *testing.T) {
	b := newBench(t)
	settings := map[string]string{"connector.class": "numbers", "topic": "numbers"}
	if _, err := b.worker.Create(t.Context(), "in", settings, TargetStopped); err != nil {
		t.Fatal(err)
	}
	b.await("it is stopped", func() bool {
		s, err := b.worker.Status(t.Context(), "in")
		return err == nil && s.Connector.State == Stopped
	})
	if err := b.worker.Delete(t.Context(), "in"); err != nil {
		t.Fatal(err)
	}
	b.create("in", settings)
	b.awaitTask("in", Running)
}

func TestStoppedWorkerRefusesChanges(t *testing.T) {
	b := newBench(t)
	b.source("in", 0)
	b.stop()
	for what, err := range map[string]error{
		"create": func() error {
			_, err := b.worker.Create(t.Context(), "x", map[string]string{"connector.class": "numbers"}, TargetRunning)
			return err
		}(),
		"pause":   b.worker.SetTarget(t.Context(), "in", TargetPaused),
		"delete":  b.worker.Delete(t.Context(), "in"),
		"restart": b.worker.Restart(t.Context(), "in", false),
	} {
		if !errors.Is(err, ErrStopping) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestOnlyFailedTasksAreRestarted(t *testing.T) {
	b := newBench(t)
	b.source("in", 10)
	b.awaitTask("in", Completed)
	if err := b.worker.Restart(t.Context(), "in", true); err != nil {
		t.Fatal(err)
	}
	if s := b.awaitTask("in", Completed); s.Records != 10 {
		t.Errorf("a task that had not failed was started anew: %+v", s)
	}
	b.create("bad", map[string]string{"connector.class": "numbers", "topic": "bad", "bad.every": "1"})
	b.awaitTask("bad", Failed)
	if err := b.worker.Restart(t.Context(), "bad", true); err != nil {
		t.Fatal(err)
	}
	if s, err := b.worker.Status(t.Context(), "bad"); err != nil || s.Tasks[0].State == Failed && s.Tasks[0].Trace == "" {
		t.Errorf("%+v, %v", s, err)
	}
	b.awaitTask("bad", Failed)
}

// A secret that was never given cannot be put back where it is hidden.
func TestHiddenSecretOfNobodyIsRefused(t *testing.T) {
	b := newBench(t)
	_, err := b.worker.Create(t.Context(), "in", map[string]string{"connector.class": "numbers", "topic": "t", "password": config.Hidden}, TargetRunning)
	var invalid *ConfigError
	if !errors.As(err, &invalid) || invalid.Problems[0].Setting != "password" {
		t.Errorf("the error is %v", err)
	}
}

// Whatever one plugin does at whichever stage, its neighbours do not notice, and
// the worker stops in bounded time and leaves nothing behind.
func TestTroubledPluginsHarmNobody(t *testing.T) {
	before := runtime.NumGoroutine()
	b := newBench(t)
	b.produce("numbers", "x") // for the sinks
	stages := []string{"die-open source", "die-read source", "die-close source", "die-write sink",
		"hang-read source", "hang-open sink", "hang-write sink", "hang-close sink"}
	for _, name := range stages {
		how, kind, _ := strings.Cut(name, " ")
		settings := map[string]string{"connector.class": "troubled-" + kind, "how": how, "key.converter": "string", "value.converter": "string"}
		if kind == "source" {
			settings["topic"] = "trouble"
		} else {
			settings["topics"] = "numbers"
		}
		b.create(name, settings)
	}
	b.sink("out", "numbers")
	b.source("in", 500)
	b.awaitTask("in", Completed)
	b.await("the lines", func() bool { return len(b.lines("out")) >= 501 })
	for _, name := range stages {
		if strings.HasPrefix(name, "die") && !strings.Contains(name, "close") {
			b.awaitTask(name, Failed)
		}
	}
	begun := time.Now()
	b.stop()
	if took := time.Since(begun); took > 3*stopTimeout {
		t.Errorf("stopping took %v", took)
	}
	b.cluster.Stop()
	b.await("the end of all goroutines", func() bool { return runtime.NumGoroutine() <= before+2 })
}

// The tasks of a sink share partitions out anew whenever one comes or goes.
// Every record is written, and in order within its partition.
func TestRebalancesLoseNothing(t *testing.T) {
	b := newBench(t)
	const partitions, perPartition = 6, 1000
	b.topic("many", map[string]string{})
	b.partitions("many", partitions)
	var writers sync.WaitGroup
	defer writers.Wait()
	writers.Go(func() {
		for i := range 10 {
			for p := range partitions {
				var records []*kgo.Record
				for j := range perPartition / 10 {
					records = append(records, &kgo.Record{Topic: "many", Partition: int32(p), Value: fmt.Appendf(nil, "%d/%d", p, i*perPartition/10+j)})
				}
				b.send(records...)
			}
		}
	})
	b.sink("out", "many", "tasks.max", "3")
	b.awaitTask("out", Running)
	for i := range 9 {
		b.await("progress", func() bool { return len(b.lines("out")) > i*partitions*perPartition/10 })
		if err := b.worker.RestartTask(t.Context(), "out", i%3); err != nil {
			t.Fatal(err)
		}
	}
	all := func() int { return len(unique(b.lines("out"))) }
	b.await("all records", func() bool { return all() == partitions*perPartition })
	b.stop()
	last := map[string]int{}
	for _, line := range unique(b.lines("out")) {
		p, n, _ := strings.Cut(line, "/")
		i, err := strconv.Atoi(n)
		if err != nil || i != last[p] {
			t.Fatalf("partition %s: %q comes where %d was due", p, line, last[p])
		}
		last[p]++
	}
	if n := len(b.lines("out")); n != partitions*perPartition {
		t.Errorf("%d lines, want %d: clean restarts duplicate nothing", n, partitions*perPartition)
	}
}

func (b *bench) partitions(topic string, n int) {
	b.Helper()
	client, err := kgo.NewClient(b.cluster.ClientOptions()...)
	if err != nil {
		b.Fatal(err)
	}
	defer client.Close()
	if _, err := kadm.NewClient(client).UpdatePartitions(b.Context(), n, topic); err != nil {
		b.Fatal(err)
	}
}

// A topic that is deleted and made again under running connectors is a new one:
// they go on with it.
func TestTopicMadeAgainUnderRunningConnectors(t *testing.T) {
	t.Parallel() // it mostly waits
	b := newBench(t)
	b.sink("out", "in")
	b.produce("in", numbersFrom(0, 10)...)
	b.await("the first lines", func() bool { return len(b.lines("out")) == 10 })
	b.deleteTopic("in")
	b.topic("in", nil)
	b.produce("in", "new", "newer")
	b.await("the lines of the new topic", func() bool { return slices.Contains(b.lines("out"), "newer") })
	if !slices.Contains(b.lines("out"), "new") {
		t.Errorf("the lines are %v", b.lines("out"))
	}
	b.source("source", 0)
	b.await("records", func() bool { return b.end("numbers") > 100 })
	b.deleteTopic("numbers")
	b.await("records again, or a failure that says why", func() bool {
		s := b.awaitAnyTask("source")
		return s.State == Failed && strings.Contains(s.Trace, "topic was deleted") || s.State == Running && b.end("numbers") > 100
	})
}

func (b *bench) awaitAnyTask(name string) TaskStatus {
	b.Helper()
	var last TaskStatus
	b.await("a task of "+name, func() bool {
		status, err := b.worker.Status(b.Context(), name)
		if err != nil || len(status.Tasks) == 0 {
			return false
		}
		last = status.Tasks[0]
		return true
	})
	return last
}

func (b *bench) deleteTopic(topic string) {
	b.Helper()
	client, err := kgo.NewClient(b.cluster.ClientOptions()...)
	if err != nil {
		b.Fatal(err)
	}
	defer client.Close()
	if _, err := kadm.NewClient(client).DeleteTopic(b.Context(), topic); err != nil {
		b.Fatal(err)
	}
}

// Dead letters are the records as they were, whatever they are, and all of them.
func TestDeadLettersAreTheRecordsAsTheyWere(t *testing.T) {
	b := newBench(t)
	b.topic("in", map[string]string{"max.message.bytes": "4000000"})
	b.topic("dead", map[string]string{"max.message.bytes": "5000000"})
	header := []kgo.RecordHeader{{Key: "h\xff", Value: nil}, {Key: "h", Value: []byte("\x00")}}
	bad := []*kgo.Record{
		{Topic: "in", Key: []byte("{"), Value: nil, Headers: header},
		{Topic: "in", Key: nil, Value: []byte{}},
		{Topic: "in", Key: []byte("\xff"), Value: []byte("1")},
		{Topic: "in", Key: []byte("1"), Value: bytes.Repeat([]byte("x"), 3_000_000)},
	}
	for range 500 {
		bad = append(bad, &kgo.Record{Topic: "in", Value: []byte("no JSON")})
	}
	b.sink("out", "in", "key.converter", "json", "value.converter", "json", "errors.tolerance", "all", "errors.deadletterqueue.topic.name", "dead")
	b.send(bad...)
	letters := b.records("dead", len(bad))
	if len(letters) != len(bad) {
		t.Fatalf("%d dead letters, want %d", len(letters), len(bad))
	}
	for i, l := range letters {
		if (l.Value == nil) != (bad[i].Value == nil) || !bytes.Equal(l.Value, bad[i].Value) || (l.Key == nil) != (bad[i].Key == nil) || !bytes.Equal(l.Key, bad[i].Key) ||
			len(l.Headers) != len(bad[i].Headers)+7 || i == 0 && l.Headers[0].Key != header[0].Key {
			t.Errorf("dead letter %d is %q: %.20q with %d headers", i, l.Key, l.Value, len(l.Headers))
		}
	}
}

// No record is so strange that it stops a sink, whose converter takes all.
func TestStrangeRecordsReachASink(t *testing.T) {
	for _, converter := range []string{"string", "bytes"} {
		t.Run(converter, func(t *testing.T) {
			b := newBench(t)
			b.topic("in", map[string]string{"max.message.bytes": "4000000"})
			b.send(
				&kgo.Record{Topic: "in"},
				&kgo.Record{Topic: "in", Key: []byte{}, Value: []byte{}},
				&kgo.Record{Topic: "in", Key: []byte("\xff\x00"), Value: []byte("\xfe")},
				&kgo.Record{Topic: "in", Value: []byte("h"), Headers: []kgo.RecordHeader{{Key: "\xff", Value: []byte("\xff")}, {Key: "", Value: nil}}},
				&kgo.Record{Topic: "in", Value: []byte("t"), Timestamp: time.UnixMilli(0)},
				&kgo.Record{Topic: "in", Value: []byte("u"), Timestamp: time.UnixMilli(253402300800000)},
			)
			b.sink("out", "in", "key.converter", converter, "value.converter", converter)
			b.await("the last line or a failure", func() bool {
				return slices.Contains(b.lines("out"), "u") || b.awaitAnyTask("out").State == Failed
			})
			if got := b.lines("out"); !slices.Equal(got, []string{"", "", "\xfe", "h", "t", "u"}) {
				t.Errorf("the lines are %q; the task is %+v", got, b.awaitAnyTask("out"))
			}
		})
	}
}
