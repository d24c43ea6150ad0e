package connectortest

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

// A test executable that does not call Main must never be started as a plugin:
// it would run its tests, which start it again, and so on. These tests look at
// the decision only.
func TestSuiteRefusesToStartItself(t *testing.T) {
	const pid = 17
	test := []string{"x.test", "-test.v"}
	for _, c := range []struct {
		name string
		args []string
		mark string
		want string // "" if it may start
	}{
		{"Main was called", test, "17 other queue", ""},
		{"Main was not called", test, "", "call connectortest.Main from TestMain"},
		{"only a process around this one has called Main", test, "16 queue", "call connectortest.Main from TestMain"},
		{"Main was called with another plugin", test, "17 other", `"queue" is not among those`},
		{"the process was started to serve", []string{"x.test", serveArgument, "queue"}, "17 queue", "which should not run tests"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := mayStart("queue", c.args, pid, c.mark)
			if (c.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestMainRefuses(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		args []string
		env  string
		want string
	}{
		{"to serve a plugin that it was not given", []string{serveArgument, "stranger"}, depthVariable + "=1", `the plugin "stranger" is not among those`},
		{"to run inside too many others", []string{"-test.run=^$"}, depthVariable + "=" + strconv.Itoa(depthMax), "running inside each other"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), self, c.args...)
			cmd.Env = append(os.Environ(), c.env)
			out, err := cmd.CombinedOutput()
			if err == nil || !strings.Contains(string(out), c.want) {
				t.Errorf("it ended with %v, want %q in:\n%s", err, c.want, out)
			}
		})
	}
}
