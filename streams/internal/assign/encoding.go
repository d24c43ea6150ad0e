package assign

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// version is that of both encodings. Later versions only append: a reader takes what it knows and leaves the rest, so
// members of several versions work together.
const version = 1

// ProcessID tells processes apart: members of one process share its state folder. It is kept in the folder.
type ProcessID [16]byte

// Userdata is what a member tells the leader when it joins.
type Userdata struct {
	Process ProcessID
	// Tasks are the tasks that the member runs, and those that its process has a folder of.
	Tasks []TaskState
	// Endpoint is where other processes can reach this one, as host:port; empty if nowhere.
	Endpoint string
}

// TaskState is how far a member's process is with one task.
type TaskState struct {
	Task
	// Active says that the member runs the task now.
	Active bool
	// Progress is the sum of the changelog offsets that its state holds: among processes, the one with the larger sum
	// lags less. Zero without state.
	Progress int64
}

// Assignment is what the leader tells a member.
type Assignment struct {
	// Active tasks are to be run.
	Active []Task
	// Standby tasks are to be kept up with. Leaders of version 1 assign none.
	Standby []Task
}

// AppendUserdata encodes u.
func AppendUserdata(dst []byte, u Userdata) []byte {
	dst = append(dst, version)
	dst = append(dst, u.Process[:]...)
	dst = binary.AppendUvarint(dst, uint64(len(u.Tasks)))
	for _, t := range u.Tasks {
		dst = appendTask(dst, t.Task)
		active := byte(0)
		if t.Active {
			active = 1
		}
		dst = append(dst, active)
		dst = binary.AppendVarint(dst, t.Progress)
	}
	return appendString(dst, u.Endpoint)
}

// DecodeUserdata is the inverse of AppendUserdata. It reads versions from 1 up.
func DecodeUserdata(b []byte) (Userdata, error) {
	d := decoder{b: b}
	d.version()
	var u Userdata
	copy(u.Process[:], d.bytes(len(u.Process)))
	for n := d.uvarint(); n > 0 && d.err == nil; n-- {
		t := TaskState{Task: d.task()}
		t.Active = d.byte() == 1
		t.Progress = d.varint()
		u.Tasks = append(u.Tasks, t)
	}
	u.Endpoint = d.string()
	if d.err != nil {
		return Userdata{}, fmt.Errorf("decoding a member's user data: %w", d.err)
	}
	return u, nil
}

// AppendAssignment encodes a.
func AppendAssignment(dst []byte, a Assignment) []byte {
	dst = append(dst, version)
	for _, tasks := range [][]Task{a.Active, a.Standby} {
		dst = binary.AppendUvarint(dst, uint64(len(tasks)))
		for _, t := range tasks {
			dst = appendTask(dst, t)
		}
	}
	return dst
}

// DecodeAssignment is the inverse of AppendAssignment. It reads versions from 1 up.
func DecodeAssignment(b []byte) (Assignment, error) {
	d := decoder{b: b}
	d.version()
	var a Assignment
	for _, tasks := range []*[]Task{&a.Active, &a.Standby} {
		for n := d.uvarint(); n > 0 && d.err == nil; n-- {
			*tasks = append(*tasks, d.task())
		}
	}
	if d.err != nil {
		return Assignment{}, fmt.Errorf("decoding an assignment: %w", d.err)
	}
	return a, nil
}

func appendTask(dst []byte, t Task) []byte {
	dst = appendString(dst, t.Sub)
	return binary.AppendUvarint(dst, uint64(uint32(t.Partition)))
}

func appendString(dst []byte, s string) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(s)))
	return append(dst, s...)
}

// decoder reads from b until the first failure; after that it returns zeros.
type decoder struct {
	b   []byte
	err error
}

var errShort = errors.New("ends too early")

func (d *decoder) fail(err error) {
	if d.err == nil {
		d.err = err
	}
	d.b = nil
}

func (d *decoder) version() {
	if v := d.byte(); d.err == nil && v < 1 {
		d.fail(errors.New("version 0 does not exist"))
	}
}

func (d *decoder) bytes(n int) []byte {
	if n > len(d.b) {
		d.fail(errShort)
		return nil
	}
	out := d.b[:n:n]
	d.b = d.b[n:]
	return out
}

func (d *decoder) byte() byte {
	if b := d.bytes(1); b != nil {
		return b[0]
	}
	return 0
}

func (d *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 {
		d.fail(errShort)
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) varint() int64 {
	v, n := binary.Varint(d.b)
	if n <= 0 {
		d.fail(errShort)
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) string() string {
	n := d.uvarint()
	if n > uint64(len(d.b)) {
		d.fail(errShort)
		return ""
	}
	return string(d.bytes(int(n)))
}

func (d *decoder) task() Task {
	t := Task{Sub: d.string()}
	p := d.uvarint()
	if p > 1<<31-1 {
		d.fail(fmt.Errorf("partition %d is beyond its range", p))
		return Task{}
	}
	t.Partition = int32(p)
	return t
}
