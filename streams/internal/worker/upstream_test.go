package worker

import (
	"errors"
	"testing"

	"github.com/millrace/millrace/streams/internal/task"
	"github.com/millrace/millrace/streams/window"
)

// TestMarkIsReachedWhenAllSentBeforeItIsFetched: what is sent after a mark must not hold it up, or it would never be reached
// while the thread works.
func TestMarkIsReachedWhenAllSentBeforeItIsFetched(t *testing.T) {
	f := &flight{out: map[int64]int{}, ends: map[int32]int64{}}
	first, second := f.sent(), f.sent()
	mark := f.mark()
	later := f.sent()
	if f.reached(mark, 0, 0) {
		t.Error("reached with two records on their way")
	}
	f.landed(first, 0, 41, nil)
	if f.reached(mark, 0, 42) {
		t.Error("reached with one record on its way")
	}
	f.landed(second, 1, 7, errors.New("refused"))
	if f.reached(mark, 0, 41) {
		t.Error("reached with a record that was not fetched")
	}
	if !f.reached(mark, 0, 42) || !f.reached(mark, 1, 0) {
		t.Error("not reached though everything was fetched or refused")
	}
	if next := f.mark(); f.reached(next, 0, 42) {
		t.Error("the next mark is reached with a record on its way")
	}
	f.landed(later, 0, 42, nil)
	if len(f.out) != 0 {
		t.Errorf("%v left on their way", f.out)
	}
}

func TestLaneTakesTheEarliestRecordFirst(t *testing.T) {
	at := func(time window.Instant) *taskRun {
		return &taskRun{task: &task.Task{}, looked: true, head: task.Head{Ready: true, Time: time}}
	}
	a, b, c := at(30), at(10), at(20)
	first, second, _, err := lane{a, b, c, {}}.heads()
	if first != b || second != 20 || err != nil {
		t.Errorf("first %p until %d, %v; want %p until 20", first, second, err, b)
	}
}
