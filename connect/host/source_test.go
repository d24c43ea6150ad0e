package host

import (
	"context"
	"io"
	"testing"
)

// readAll reads until the end.
func readAll(t testing.TB, s *Source, each func(read int)) []string {
	t.Helper()
	var all []string
	for {
		b, err := s.Read(context.Background())
		if err == io.EOF {
			return all
		}
		if err != nil {
			t.Fatalf("reading after %d records: %v", len(all), err)
		}
		all = append(all, texts(b)...)
		if each != nil {
			each(len(all))
		}
	}
}

func TestSourceIsReadToItsEnd(t *testing.T) {
	s := openSource(t, newTestHost(t, nil), TaskConfig{Settings: map[string]string{"count": "95"}})
	requireTexts(t, readAll(t, s, nil), numbersUpTo(95))
	if _, err := s.Read(context.Background()); err != io.EOF {
		t.Errorf("after the end, Read returned %v, want io.EOF", err)
	}
	status := s.Status()
	if !status.HasProgress || status.Progress.Done != 95 || status.Progress.Total != 95 || status.Progress.Unit != "numbers" {
		t.Errorf("progress is %+v", status.Progress)
	}
	if err := s.Close(context.Background()); err != nil {
		t.Errorf("closing: %v", err)
	}
}
