package main

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"
	"time"
)

// TestMain lets the test binary be the broker under measurement.
func TestMain(m *testing.M) {
	if folder := os.Getenv(envFolder); folder != "" {
		exit(serve(folder, os.Getenv(envListen)))
	}
	os.Exit(m.Run())
}

func TestEachCaseIsMeasured(t *testing.T) {
	var out bytes.Buffer
	if err := run([]string{"-n", "1", "--output", "json"}, &out); err != nil {
		t.Fatal(err)
	}
	var results []Result
	if err := json.Unmarshal(out.Bytes(), &results); err != nil {
		t.Fatalf("the output is no JSON: %v\n%s", err, out.Bytes())
	}
	if len(results) != 3 {
		t.Fatalf("got %d cases, want 3", len(results))
	}
	for _, r := range results {
		if r.Runs != 1 || r.Median <= 0 {
			t.Errorf("got %+v", r)
		}
	}
}

func TestSummaryOfTimes(t *testing.T) {
	var times []time.Duration
	for ms := range 11 {
		times = append(times, time.Duration(10-ms)*time.Millisecond)
	}
	if got, want := summarize("x", times), (Result{"x", 11, 5, 9, 10}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
