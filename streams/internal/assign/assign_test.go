package assign

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func process(n int) ProcessID { return ProcessID{byte(n)} }

func tasksOf(sub string, n int) []Task {
	var out []Task
	for p := range n {
		out = append(out, Task{sub, int32(p)})
	}
	return out
}

func runs(progress int64, tasks ...Task) []TaskState {
	var out []TaskState
	for _, t := range tasks {
		out = append(out, TaskState{Task: t, Active: true, Progress: progress})
	}
	return out
}

func all(Task) bool  { return true }
func none(Task) bool { return false }

func TestTasksOfEachSubTopologySpread(t *testing.T) {
	tasks := append(tasksOf("count", 4), tasksOf("parse", 4)...)
	got := Plan(tasks, none, []Member{{ID: "a"}, {ID: "b"}})
	for id, mine := range got {
		bySub := map[string]int{}
		for _, task := range mine {
			bySub[task.Sub]++
		}
		if bySub["count"] != 2 || bySub["parse"] != 2 {
			t.Errorf("member %s runs %v, want two tasks of each sub-topology", id, mine)
		}
	}
}

func TestNewMemberGetsTasksOfEachSubTopology(t *testing.T) {
	count, parse := tasksOf("count", 4), tasksOf("parse", 4)
	stateful := func(t Task) bool { return t.Sub == "count" }
	old := Member{ID: "old", Userdata: Userdata{Process: process(1), Tasks: runs(5, append(count, parse...)...)}}
	fresh := Member{ID: "new", Userdata: Userdata{Process: process(2)}}
	got := Plan(append(slices.Clone(count), parse...), stateful, []Member{old, fresh})
	n := 0
	for _, task := range got["new"] {
		if task.Sub == "count" {
			n++
		}
	}
	if n != 2 {
		t.Errorf("the new member gets %v, want two of each", got["new"])
	}
}

func TestTaskGoesToTheProcessThatHasItsState(t *testing.T) {
	task := Task{"count", 0}
	members := []Member{
		{ID: "a", Userdata: Userdata{Process: process(1)}},
		{ID: "b", Userdata: Userdata{Process: process(2), Tasks: []TaskState{{Task: task, Progress: 10}}}},
		{ID: "c", Userdata: Userdata{Process: process(3), Tasks: []TaskState{{Task: task, Progress: 20}}}},
	}
	if got := Plan([]Task{task}, all, members); len(got["c"]) != 1 {
		t.Errorf("got %v, want the task on c, whose state is furthest", got)
	}
	if got := Plan([]Task{task}, none, members); len(got["a"]) != 1 {
		t.Errorf("got %v: without state the first member will do", got)
	}
}

func TestMovingTaskIsWithheldUntilItsOwnerGaveItUp(t *testing.T) {
	tasks := tasksOf("count", 2)
	old := Member{ID: "old", Userdata: Userdata{Process: process(1), Tasks: runs(5, tasks...)}}
	fresh := Member{ID: "new", Userdata: Userdata{Process: process(2)}}
	plan := Plan(tasks, all, []Member{old, fresh})
	if len(plan["old"]) != 1 || len(plan["new"]) != 1 {
		t.Fatalf("plan %v, want one task each", plan)
	}
	first := Withhold(plan, []Member{old, fresh})
	if len(first["old"]) != 1 || len(first["new"]) != 0 {
		t.Errorf("first round %v, want the moving task with nobody", first)
	}
	old.Tasks = runs(5, first["old"]...)
	second := Withhold(Plan(tasks, all, []Member{old, fresh}), []Member{old, fresh})
	if !reflect.DeepEqual(second, plan) {
		t.Errorf("second round %v, want the plan %v", second, plan)
	}
}

// world draws tasks and members whose claims may be stale, doubled or of tasks that are gone.
func world(t *rapid.T) ([]Task, func(Task) bool, []Member) {
	var tasks []Task
	for s := range rapid.IntRange(1, 3).Draw(t, "subs") {
		tasks = append(tasks, tasksOf(fmt.Sprintf("sub%d", s), rapid.IntRange(0, 7).Draw(t, "partitions"))...)
	}
	stateful := func(t Task) bool { return t.Sub != "sub1" }
	var members []Member
	for m := range rapid.IntRange(1, 6).Draw(t, "members") {
		u := Userdata{Process: process(rapid.IntRange(1, 3).Draw(t, "process"))}
		for _, task := range append(slices.Clone(tasks), Task{"gone", 1}) {
			if rapid.IntRange(0, 3).Draw(t, "knows") == 0 {
				u.Tasks = append(u.Tasks, TaskState{Task: task, Active: rapid.Bool().Draw(t, "active"), Progress: rapid.Int64Range(0, 5).Draw(t, "progress")})
			}
		}
		members = append(members, Member{ID: fmt.Sprintf("m%d", m), Userdata: u})
	}
	return tasks, stateful, members
}

func TestPlanProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tasks, stateful, members := world(t)
		plan := Plan(tasks, stateful, members)

		var given []Task
		least, most := len(tasks), 0
		for _, mine := range plan {
			given = append(given, mine...)
			least, most = min(least, len(mine)), max(most, len(mine))
		}
		slices.SortFunc(given, Task.Compare)
		if !slices.Equal(given, tasks) {
			t.Fatalf("given out %v, want each of %v once", given, tasks)
		}
		if most-least > 1 {
			t.Fatalf("members have %d to %d tasks: %v", least, most, plan)
		}

		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "shuffle"), 0))
		shuffledTasks, shuffledMembers := slices.Clone(tasks), slices.Clone(members)
		rng.Shuffle(len(tasks), func(i, j int) { shuffledTasks[i], shuffledTasks[j] = shuffledTasks[j], shuffledTasks[i] })
		rng.Shuffle(len(members), func(i, j int) { shuffledMembers[i], shuffledMembers[j] = shuffledMembers[j], shuffledMembers[i] })
		if again := Plan(shuffledTasks, stateful, shuffledMembers); !reflect.DeepEqual(again, plan) {
			t.Fatalf("in another order: %v, want %v", again, plan)
		}

		// Once everybody runs what was planned, nothing moves.
		for i := range members {
			members[i].Tasks = runs(1, plan[members[i].ID]...)
		}
		if again := Plan(tasks, stateful, members); !reflect.DeepEqual(again, plan) {
			t.Fatalf("a settled group changes from %v to %v", plan, again)
		}
	})
}

func TestOnlyAsManyTasksMoveAsMust(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tasks, stateful, members := world(t)
		settled := Plan(tasks, stateful, members)
		for i := range members {
			members[i].Tasks = runs(1, settled[members[i].ID]...)
		}
		joined := append(slices.Clone(members), Member{ID: "joins"})
		plan := Plan(tasks, stateful, joined)
		if moved := moves(settled, plan); moved > len(plan["joins"]) {
			t.Fatalf("%d tasks moved for a member that got %d: %v, then %v", moved, len(plan["joins"]), settled, plan)
		}
		left := members[1:]
		if len(left) == 0 {
			return
		}
		plan = Plan(tasks, stateful, left)
		if moved, must := moves(settled, plan), len(settled[members[0].ID]); moved != must {
			t.Fatalf("%d tasks moved, %d had lost their member: %v, then %v", moved, must, settled, plan)
		}
	})
}

// moves counts the tasks that are elsewhere in b.
func moves(a, b map[string][]Task) int {
	at := map[Task]string{}
	for id, tasks := range a {
		for _, t := range tasks {
			at[t] = id
		}
	}
	n := 0
	for id, tasks := range b {
		for _, t := range tasks {
			if at[t] != id {
				n++
			}
		}
	}
	return n
}

func FuzzDecodeUserdata(f *testing.F) {
	f.Add([]byte{})
	f.Add(AppendUserdata(nil, Userdata{}))
	f.Add(AppendUserdata(nil, Userdata{Process: process(7), Tasks: runs(1<<40, Task{"count", 3}), Endpoint: "host:1"}))
	f.Fuzz(func(t *testing.T, b []byte) {
		u, err := DecodeUserdata(b)
		if err != nil {
			return
		}
		if again, err := DecodeUserdata(AppendUserdata(nil, u)); err != nil || !reflect.DeepEqual(again, u) {
			t.Fatalf("decoded %+v, encoded and decoded again %+v, %v", u, again, err)
		}
	})
}

func FuzzDecodeAssignment(f *testing.F) {
	f.Add([]byte{})
	f.Add(AppendAssignment(nil, Assignment{Active: []Task{{"count", 3}}, Standby: []Task{{"parse", 0}}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := DecodeAssignment(b)
		if err != nil {
			return
		}
		if again, err := DecodeAssignment(AppendAssignment(nil, a)); err != nil || !reflect.DeepEqual(again, a) {
			t.Fatalf("decoded %+v, encoded and decoded again %+v, %v", a, again, err)
		}
	})
}

func TestNewerVersionIsReadAsFarAsKnown(t *testing.T) {
	u := Userdata{Process: process(1), Tasks: runs(4, Task{"count", 1}), Endpoint: "h:1"}
	enc := AppendUserdata(nil, u)
	enc[0] = 9
	if got, err := DecodeUserdata(append(enc, "more fields"...)); err != nil || !reflect.DeepEqual(got, u) {
		t.Errorf("got %+v, %v, want %+v", got, err, u)
	}
}
