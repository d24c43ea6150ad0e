package main

import (
	"bufio"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/sdk/serde"
	"github.com/millrace/millrace/streams/streamstest"
)

// truth is what the job should come to, worked out from the whole file at once: with a regular expression, maps and a
// sort, and nothing of the job.
type truth struct {
	pages  map[string]PageViews // "path minute"
	visits map[string]int64     // "visitor first last"
	broken int
}

var (
	lineRE  = regexp.MustCompile(`^(\S+) \S+ \S+ \[([^\]]+)\] "([A-Z]+) ([^ ?"]*)[^ "]* HTTP/[^"]*" (\d{3}) (\d+|-) "(?:[^"\\]|\\.)*" "((?:[^"\\]|\\.)*)"`)
	assetRE = regexp.MustCompile(`(?i)\.(css|gif|ico|jpe?g|js|map|png|svg|swf|ttf|woff)$|^/robots\.txt$`)
	botRE   = regexp.MustCompile(`(?i)bot|crawler|spider|slurp|archiver|feed|rss|https?://`)
)

func workOut(t *testing.T, lines []string) truth {
	t.Helper()
	tr := truth{pages: map[string]PageViews{}, visits: map[string]int64{}}
	times := map[string][]int64{}
	for _, line := range lines {
		m := lineRE.FindStringSubmatch(line)
		if m == nil {
			tr.broken++
			continue
		}
		if m[3] != "GET" || !(m[5][0] == '2' || m[5] == "304") || assetRE.MatchString(m[4]) || botRE.MatchString(m[7]) {
			continue
		}
		at, err := time.Parse("2/Jan/2006:15:04:05 -0700", m[2])
		if err != nil {
			t.Fatal(err)
		}
		key := m[4] + " " + at.UTC().Format("2006-01-02T15:04")
		size, _ := strconv.ParseInt(m[6], 10, 64)
		tr.pages[key] = PageViews{tr.pages[key].Views + 1, tr.pages[key].Bytes + size}
		times[m[1]] = append(times[m[1]], at.Unix())
	}
	for visitor, ts := range times {
		slices.Sort(ts)
		for len(ts) > 0 {
			n := 1
			for n < len(ts) && ts[n]-ts[n-1] <= 30*60 {
				n++
			}
			tr.visits[fmt.Sprintf("%s %d %d", visitor, ts[0], ts[n-1])] = int64(n)
			ts = ts[n:]
		}
	}
	return tr
}

func readLog(t *testing.T) []string {
	t.Helper()
	f, err := os.Open("access.log")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var lines []string
	for s := bufio.NewScanner(f); s.Scan(); {
		lines = append(lines, s.Text())
	}
	return lines
}

// TestJobMatchesTheLog runs the job over the whole log, with its lines spread over three partitions and these read one after the
// other, as a job may that catches up, and compares every row of both results with the truth.
func TestJobMatchesTheLog(t *testing.T) {
	lines := readLog(t)
	topology, err := Topology()
	if err != nil {
		t.Fatal(err)
	}
	d := streamstest.NewWith(t, topology, streamstest.Config{Handlers: Handlers(), Partitions: map[string]int32{accessLogTopic: 3}})
	in := d.Input(accessLogTopic, serde.String, serde.String)
	send := func(from, end int) {
		d.Apart(func() {
			for i, line := range lines[from:end] {
				in.Send(fmt.Sprintf("access.log:%d", from+i), line, d.Now())
			}
		})
	}
	send(0, len(lines)/2)
	d.Restart()
	send(len(lines)/2, len(lines))

	want := workOut(t, lines)
	pages := map[string]PageViews{}
	for k, v := range streamstest.Rows(d.Output(pageViewsTopic, serde.JSON[PageKey](), serde.JSON[PageViews]())) {
		pages[k.Path+" "+k.WindowStart.Format("2006-01-02T15:04")] = v
	}
	diff(t, "page-views", pages, want.pages)
	visits := map[string]int64{}
	for k, v := range streamstest.Rows(d.Output(visitsTopic, serde.JSON[VisitKey](), serde.JSON[Visit]())) {
		visits[fmt.Sprintf("%s %d %d", k.Visitor, k.Start.Unix(), k.End.Unix())] = v.Hits
	}
	diff(t, "visits", visits, want.visits)

	dead := d.Output(deadTopic, serde.String, serde.String).All()
	if len(dead) != want.broken || want.broken != 1 {
		t.Fatalf("%d dead letters, want %d, and one", len(dead), want.broken)
	}
	if !slices.Contains(lines, dead[0].Value) || lineRE.MatchString(dead[0].Value) {
		t.Errorf("the dead letter %q is not the broken line", dead[0].Value)
	}
	for _, h := range dead[0].Headers {
		if h.Key == "__streams.errors.message" && strings.Contains(string(h.Value), "closing quote") {
			return
		}
	}
	t.Errorf("the dead letter's headers do not say why: %v", dead[0].Headers)
}

func diff[V comparable](t *testing.T, what string, got, want map[string]V) {
	t.Helper()
	if len(want) < 1000 {
		t.Errorf("%s: only %d rows are expected: the log is not what it was", what, len(want))
	}
	shown := 0
	keys := maps.Clone(want)
	maps.Copy(keys, got)
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		g, inGot := got[k]
		w, inWant := want[k]
		if (g != w || inGot != inWant) && shown < 10 {
			shown++
			t.Errorf("%s: row %s is %v (%v), want %v (%v)", what, k, g, inGot, w, inWant)
		}
	}
	t.Logf("%s: %d rows compared", what, len(keys))
}

func TestParseHitSaysWhatIsWrong(t *testing.T) {
	const good = `1.2.3.4 - - [17/May/2015:10:05:03 +0200] "GET /a?b=c HTTP/1.1" 200 17 "-" "say \"hi\" (X)" extra`
	hit, err := ParseHit(good)
	want := Hit{"1.2.3.4", time.Date(2015, 5, 17, 8, 5, 3, 0, time.UTC), "GET", "/a", 200, 17, `say \"hi\" (X)`}
	if err != nil || hit != want {
		t.Errorf("got %+v, %v, want %+v", hit, err, want)
	}
	bad := map[string]string{
		"":      "no [time]",
		"1.2 [": "found 1 fields",
		`1.2.3.4 - - [17/May/2015:10:05:03 +0200 "GET`:                                 "] is missing",
		`1.2.3.4 - - [17/Foo/2015:10:05:03 +0200] "GET / HTTP/1.1" 200 17 "-" "-"`:     "the time",
		`1.2.3.4 - - [17/May/2015:10:05:03 +0200] "\x16\x03" 400 226 "-" "-"`:          "not method, target and protocol",
		`1.2.3.4 - - [17/May/2015:10:05:03 +0200] "GET / HTTP/1.1" two 17 "-" "-"`:     "the status",
		`1.2.3.4 - - [17/May/2015:10:05:03 +0200] "GET / HTTP/1.1" 200 many "-" "-"`:   "the size",
		`1.2.3.4 - - [17/May/2015:10:05:03 +0200] "GET / HTTP/1.1" 200 17 "-" "open`:   "the user agent: its closing quote",
		`1.2.3.4 - - [17/May/2015:10:05:03 +0200] "GET / HTTP/1.1" 200 17 "-" noquote`: "the user agent: it does not begin",
		`1.2.3.4 - - [17/May/2015:10:05:03 +0200] "GET / HTTP/1.1`:                     "the request: its closing quote",
	}
	for line, reason := range bad {
		if _, err := ParseHit(line); err == nil || !strings.Contains(err.Error(), reason) {
			t.Errorf("line %q: error %v, want one about %q", line, err, reason)
		}
	}
}

func FuzzParseHit(f *testing.F) {
	f.Add(`1.2.3.4 - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 17 "-" "curl"`)
	f.Add(`[] "\`)
	f.Fuzz(func(t *testing.T, line string) {
		hit, err := ParseHit(line)
		if at, ok := LineTime(line); err == nil && (!ok || !at.Equal(hit.Time)) {
			t.Errorf("LineTime found %v, %v where ParseHit found %v", at, ok, hit.Time)
		}
	})
}

func TestTopologyIsAsDrawn(t *testing.T) {
	var out, errs strings.Builder
	if err := run(t.Context(), []string{"-topology"}, os.Getenv, &out, &errs); err != nil {
		t.Fatal(err, errs.String())
	}
	want, err := os.ReadFile("testdata/topology.txt")
	if err != nil {
		t.Fatal(err)
	}
	if out.String() != string(want) {
		t.Errorf("the topology changed: see that no store was renamed, then write testdata/topology.txt\n%s", out.String())
	}
}
