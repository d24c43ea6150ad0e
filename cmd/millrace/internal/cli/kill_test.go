package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millrace/millrace/broker/brokertest"
)

// kills is how often a process is killed: a few times here, and as often as
// MILLRACE_KILLS says in `make soak`.
func kills(t *testing.T, few int) int {
	n, err := strconv.Atoi(os.Getenv("MILLRACE_KILLS"))
	if err != nil {
		return few
	}
	t.Logf("%d kills", n)
	return n
}

// TestWorkerKilledLosesNoLine kills a Connect worker with SIGKILL while its
// file source reads. No line may be lost, and a line may come once more only
// for each kill at which its position had not been stored.
func TestWorkerKilledLosesNoLine(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	dir := t.TempDir()
	input := filepath.Join(dir, "in.txt")
	writeLines(t, input, 0, 1)
	at := []string{"--brokers", brokertest.Start(t).Addr()}
	must(t, "", append([]string{"topic", "create", "lines"}, at...)...)
	args := append([]string{"connect", "--connect-listen", "127.0.0.1:0", "--connect-state", dir, "--commit-interval", "100ms"}, at...)

	worker := start(t, args...)
	must(t, "", "connector", "create", "in", "--connect-url", worker.ready.Connect, "--set", "connector.class=file-source", "--set", "topic=lines",
		"--set", "paths="+input, "--set", "value.converter=string", "--set", "key.converter=string", "--set", "poll.interval=10ms")
	written := 1
	// mayRepeat counts the kills that found a line written and not stored.
	mayRepeat := map[int]int{}
	for range kills(t, 3) {
		// The file grows while the worker reads, dies and reads again.
		for end := time.Now().Add(time.Duration(100+random.IntN(400)) * time.Millisecond); time.Now().Before(end); {
			more := 1 + random.IntN(300)
			writeLines(t, input, written, written+more)
			written += more
			time.Sleep(time.Duration(random.IntN(10)) * time.Millisecond)
		}
		worker.kill()
		for i := storedLines(t, at[1]); i < written; i++ {
			mayRepeat[i]++
		}
		worker = start(t, args...)
	}
	last := fmt.Sprintf("line %06d", written-1)
	seen := readUntil(t, at[1], "lines", last)
	worker.stop()
	duplicates := 0
	for i := range written {
		n := seen[fmt.Sprintf("line %06d", i)]
		if n == 0 {
			t.Fatalf("line %d of %d is lost", i, written)
		}
		if n > 1+mayRepeat[i] {
			t.Errorf("line %d is there %d times, though its position was stored at all but %d kills", i, n, mayRepeat[i])
		}
		duplicates += n - 1
	}
	if len(seen) != written {
		t.Errorf("there are %d different lines, and %d were written", len(seen), written)
	}
	t.Logf("%d lines, %d of them twice or more", written, duplicates)
}

// storedLines returns how many lines the stored position of the source covers.
func storedLines(t *testing.T, broker string) int {
	t.Helper()
	const lineBytes = len("line 000000\n")
	out := must(t, "", "consume", "connect-offsets", "--until-end", "--brokers", broker)
	records := strings.Split(strings.TrimSpace(out), "\n")
	last := records[len(records)-1]
	if last == "" {
		return 0 // killed before anything was stored
	}
	var stored struct{ Position string }
	var position struct{ Offset int }
	if err := json.Unmarshal([]byte(last), &stored); err != nil {
		t.Fatalf("the stored position is %s: %v", last, err)
	}
	if err := json.Unmarshal([]byte(stored.Position), &position); err != nil {
		t.Fatalf("the stored position is %s: %v", last, err)
	}
	return position.Offset / lineBytes
}

// readUntil counts the values of a topic until it has seen one of them.
func readUntil(t *testing.T, broker, topic, last string) map[string]int {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(broker), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	seen := map[string]int{}
	for seen[last] == 0 {
		fetches := client.PollFetches(ctx)
		if ctx.Err() != nil {
			t.Fatalf("%q did not come; %d other lines did", last, len(seen))
		}
		for _, r := range fetches.Records() {
			seen[string(r.Value)]++
		}
	}
	return seen
}
