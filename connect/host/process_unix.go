//go:build unix

package host

import (
	"os/exec"
	"syscall"
)

// ownGroup has the command run in a process group of its own, so that an
// interrupt typed at the terminal reaches the host only, which then stops its
// plugins in good order, and so that the group can be killed as a whole.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// killGroup kills a started command and its children.
func killGroup(cmd *exec.Cmd) {
	// The group lives on while a child does, even when its leader has been
	// reaped; no new process gets its number until then.
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
}
