package streams_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/sdk/serde"
	"github.com/millrace/millrace/streams"
	"github.com/millrace/millrace/streams/streamstest"
	"github.com/millrace/millrace/streams/window"
)

// tagged writes the place that it is bound to before each value, and wants to find its own there when it reads.
type tagged struct{ place string }

func (s tagged) Append(dst []byte, v string) ([]byte, error) {
	return append(dst, s.place+"|"+v...), nil
}

func (s tagged) Decode(src []byte) (string, error) {
	place, v, _ := strings.Cut(string(src), "|")
	if place != s.place {
		return "wrongly read from " + place + " as " + s.place, nil
	}
	return v, nil
}

func (s tagged) For(topic string, part serde.Part) serde.Serde[string] {
	return tagged{topic + "/" + part.String()}
}

func TestSerdesThatNeedTheirTopicAreBoundEverywhere(t *testing.T) {
	b := streams.NewBuilder("app")
	s := b.Stream("in", tagged{}, tagged{})
	s.To("copy")
	s.ToFunc(func(k, _ string) string { return "to-" + k })
	g := s.GroupBy("by", func(k, _ string) string { return k }, tagged{})
	last := func(_, _, next string) string { return next }
	g.Reduce("reduced", last).ToStream().To("reduced")
	w := window.Tumbling(time.Minute)
	g.WindowedBy(w).Reduce("windows", last, streams.LateTo("late")).ToStream().To("windows")
	g.WindowedBySession(window.Session(time.Minute)).Reduce("sessions", last).ToStream().To("sessions")
	d := streamstest.New(t, build(t, b))
	in := d.Input("in", tagged{}, tagged{})
	in.Send("k", "one", noon)
	d.Restart()
	in.Send("k", "two", noon)
	in.Send("k", "far", at(time.Hour))
	in.Send("k", "late", noon)

	wantLines(t, d.Output("copy", tagged{}, tagged{}), "k=one", "k=two", "k=far", "k=late")
	wantLines(t, d.Output("to-k", tagged{}, tagged{}), "k=one", "k=two", "k=far", "k=late")
	wantLines(t, d.Output("reduced", tagged{}, tagged{}), "k=one", "k=two", "k=far", "k=late")
	wantLines(t, d.Output("late", tagged{}, tagged{}), "k=late")
	for _, r := range d.Output("windows", streams.WindowedKey(tagged{}, w), tagged{}).All() {
		if r.Key.Key != "k" {
			t.Errorf("a window's key was %s", r.Key.Key)
		}
	}
	for _, r := range d.Output("sessions", streams.SessionKey(tagged{}), tagged{}).All() {
		if r.Key.Key != "k" {
			t.Errorf("a session's key was %s", r.Key.Key)
		}
	}
	for _, store := range []string{"reduced", "windows", "sessions"} {
		topic := "app-" + store + "-changelog"
		for _, rec := range d.Records(topic) {
			if !strings.HasPrefix(string(rec.Key), topic+"/key|") {
				t.Errorf("a key of %s is %q", topic, rec.Key)
			}
		}
	}
}

func TestASerdeStaysWhileItsTypeDoes(t *testing.T) {
	b := streams.NewBuilder("app")
	b.Stream("in", tagged{}, tagged{}).
		Map(func(k, v string) (string, string) { return v, k }). // the same types: both serdes stay
		MapValues(func(_, v string) int { return len(v) }).      // another, with an obvious serde
		MapValues(func(_ string, n int) []byte { return make([]byte, n) }).
		To("out")
	d := streamstest.New(t, build(t, b))
	d.Input("in", tagged{}, tagged{}).Send("key", "v", noon)
	got := d.Output("out", tagged{}, serde.Bytes).All()
	if len(got) != 1 || got[0].Key != "v" || !slices.Equal(got[0].Value, []byte{0, 0, 0}) {
		t.Errorf("got %v", got)
	}
}

func FuzzWindowedKeys(f *testing.F) {
	f.Add([]byte("k\x00\x00\x00\x00\x00\x00\x01\x02\x00\x00\x00\x00\x00\x00\x01\x02"))
	f.Add([]byte("\xff\x00\x00\x00\x00\x00\x00\x01"))
	f.Add([]byte("short"))
	windowed := streams.WindowedKey(serde.String, window.Tumbling(time.Minute))
	session := streams.SessionKey(serde.String)
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, s := range []serde.Serde[window.Windowed[string]]{windowed, session} {
			k, err := s.Decode(b)
			if err != nil {
				continue
			}
			if again, err := s.Append(nil, k); err != nil || string(again) != string(b) {
				t.Errorf("%x was read as %v and written as %x, %v", b, k, again, err)
			}
		}
	})
}
