// Package assign decides which member of a job's group runs which task, and holds the bytes in which members and leader
// tell each other (docs/format/streams-group.md).
//
// [Plan] is a pure function: the same tasks and members give the same answer, in whatever order they are listed. Its
// rules, the first ones first:
//
//  1. Every task runs on exactly one member.
//  2. Members run equally many tasks, give or take one.
//  3. A task stays where it runs, as far as rule 2 allows.
//  4. A task with state that has to move goes where most of its state is: to a member of the process that has its
//     folder, and among several to the one that is furthest.
//  5. The tasks of one sub-topology spread over members, for they cost alike.
//
// A task that moves is first taken from its old member and given out in the rebalance after, when that one has
// committed and closed it: see [Withhold].
package assign

import (
	"cmp"
	"slices"
)

// Task names a task: a sub-topology and a partition.
type Task struct {
	Sub       string
	Partition int32
}

// Compare orders tasks by sub-topology, then by partition.
func (t Task) Compare(o Task) int {
	return cmp.Or(cmp.Compare(t.Sub, o.Sub), cmp.Compare(t.Partition, o.Partition))
}

// Member is one member of the group as the assignment sees it.
type Member struct {
	// ID is the member's id in the group: unique.
	ID string
	Userdata
}

// Plan assigns every task to a member: the result has an entry for each member, its tasks sorted. Stateful tells which
// tasks have state. Without members the result is empty.
func Plan(tasks []Task, stateful func(Task) bool, members []Member) map[string][]Task {
	if len(members) == 0 {
		return map[string][]Task{}
	}
	p := newPlanner(tasks, stateful, members)
	p.keep()
	p.place()
	out := make(map[string][]Task, len(members))
	for _, m := range p.members {
		slices.SortFunc(m.tasks, Task.Compare)
		out[m.ID] = m.tasks
	}
	return out
}

// Withhold removes from a plan the tasks that a living member other than the planned one still runs.
func Withhold(plan map[string][]Task, members []Member) map[string][]Task {
	owner := map[Task]string{}
	for _, m := range members {
		for _, t := range m.Tasks {
			if t.Active {
				owner[t.Task] = m.ID
			}
		}
	}
	out := make(map[string][]Task, len(plan))
	for id, tasks := range plan {
		out[id] = slices.DeleteFunc(slices.Clone(tasks), func(t Task) bool {
			o, owned := owner[t]
			return owned && o != id
		})
	}
	return out
}

type planner struct {
	tasks    []Task
	stateful func(Task) bool
	members  []*member
	placed   map[Task]bool
	// extra is how many members may still have one task more than base.
	base, extra int
	// state holds, by task, how far its folder is in each process.
	state map[Task]map[ProcessID]int64
}

type member struct {
	Member
	tasks []Task
	bySub map[string]int
}

func newPlanner(tasks []Task, stateful func(Task) bool, members []Member) *planner {
	p := &planner{
		tasks: slices.Clone(tasks), stateful: stateful, placed: map[Task]bool{}, state: map[Task]map[ProcessID]int64{},
		base: len(tasks) / len(members), extra: len(tasks) % len(members),
	}
	slices.SortFunc(p.tasks, Task.Compare)
	for _, m := range members {
		p.members = append(p.members, &member{Member: m, bySub: map[string]int{}})
		for _, t := range m.Tasks {
			if p.state[t.Task] == nil {
				p.state[t.Task] = map[ProcessID]int64{}
			}
			at, known := p.state[t.Task][m.Process]
			if !known || t.Progress > at {
				p.state[t.Task][m.Process] = t.Progress
			}
		}
	}
	slices.SortFunc(p.members, func(a, b *member) int { return cmp.Compare(a.ID, b.ID) })
	return p
}

// room tells whether m may take one task more.
func (p *planner) room(m *member) bool {
	return len(m.tasks) < p.base || len(m.tasks) == p.base && p.extra > 0
}

func (p *planner) give(m *member, t Task) {
	if len(m.tasks) == p.base {
		p.extra--
	}
	m.tasks = append(m.tasks, t)
	m.bySub[t.Sub]++
	p.placed[t] = true
}

// keep leaves tasks where they run. Every member keeps up to base tasks first; what is left of the larger shares goes to
// those who own more.
func (p *planner) keep() {
	wanted := map[Task]bool{}
	for _, t := range p.tasks {
		wanted[t] = true
	}
	claimed := map[Task]bool{}
	owned := make([][]Task, len(p.members))
	for i, m := range p.members {
		for _, t := range m.Tasks {
			if t.Active && wanted[t.Task] && !claimed[t.Task] {
				claimed[t.Task] = true
				owned[i] = append(owned[i], t.Task)
			}
		}
		owned[i] = p.worthKeeping(owned[i])
		for len(owned[i]) > 0 && len(m.tasks) < p.base {
			p.give(m, owned[i][0])
			owned[i] = owned[i][1:]
		}
	}
	for i, m := range p.members {
		if len(owned[i]) > 0 && p.room(m) {
			p.give(m, owned[i][0])
		}
	}
}

// worthKeeping orders the tasks of a member, those that it should keep first: in turn from each sub-topology, so that
// neither those with state nor those without end up in one place, and with state before without.
func (p *planner) worthKeeping(tasks []Task) []Task {
	slices.SortFunc(tasks, Task.Compare)
	turn := map[Task]int{}
	seen := map[string]int{}
	for _, t := range tasks {
		turn[t] = seen[t.Sub]
		seen[t.Sub]++
	}
	slices.SortFunc(tasks, func(a, b Task) int {
		return cmp.Or(cmp.Compare(turn[a], turn[b]), -cmpBool(p.stateful(a), p.stateful(b)), a.Compare(b))
	})
	return tasks
}

// place gives out what nobody runs: tasks with state first, for they care where they go.
func (p *planner) place() {
	left := slices.DeleteFunc(slices.Clone(p.tasks), func(t Task) bool { return p.placed[t] })
	slices.SortStableFunc(left, func(a, b Task) int { return -cmpBool(p.stateful(a), p.stateful(b)) })
	for _, t := range left {
		p.give(p.best(t), t)
	}
}

func (p *planner) best(t Task) *member {
	var best *member
	for _, m := range p.members {
		if p.room(m) && (best == nil || p.better(t, m, best)) {
			best = m
		}
	}
	return best // never nil: there is room for every task
}

func (p *planner) better(t Task, m, than *member) bool {
	if p.stateful(t) {
		if c := cmp.Compare(p.progress(t, m), p.progress(t, than)); c != 0 {
			return c > 0
		}
	}
	return cmp.Or(cmp.Compare(len(m.tasks), len(than.tasks)), cmp.Compare(m.bySub[t.Sub], than.bySub[t.Sub])) < 0
}

// progress is how far the process of m is with the state of t: -1 if it has none.
func (p *planner) progress(t Task, m *member) int64 {
	if at, ok := p.state[t][m.Process]; ok {
		return at
	}
	return -1
}

func cmpBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}
