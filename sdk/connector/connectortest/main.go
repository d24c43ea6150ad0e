package connectortest

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/millrace/millrace/sdk/connector"
)

// Main is what TestMain of a connector's tests must call, with all plugins
// that the package's tests give to the suite. It runs the tests, or serves a
// plugin when the suite has started the test's executable as its process, and
// ends the process.
//
// Without it such a process would run the tests again, which would start
// processes of their own: TestSource and TestSink refuse to run then.
func Main(m *testing.M, plugins ...connector.Plugin) {
	code, err := run(m, plugins)
	if err != nil {
		fmt.Fprintln(os.Stderr, "connectortest:", err)
		code = 1
	}
	os.Exit(code)
}

const serveArgument = "serve-plugin-under-test"

// The guards against tests that start themselves are in the environment, as
// that is what a process hands on to those that it starts.
const (
	// mainVariable says which process has called Main, and with which plugins:
	// its id, then their names, separated by spaces.
	mainVariable = "CONNECTORTEST_MAIN"
	// depthVariable counts the test processes around a process, itself
	// included.
	depthVariable = "CONNECTORTEST_DEPTH"
	// depthMax allows for tests of the suite, which run test executables.
	depthMax = 3
)

func run(m *testing.M, plugins []connector.Plugin) (code int, err error) {
	if name, ok := servedName(os.Args); ok {
		i := slices.IndexFunc(plugins, func(p connector.Plugin) bool { return p.Name == name })
		if i < 0 {
			return 0, fmt.Errorf("the plugin %q is not among those that TestMain gives to connectortest.Main", name)
		}
		connector.Serve(plugins[i])
		return 0, nil
	}
	depth, _ := strconv.Atoi(os.Getenv(depthVariable)) // 0 if there is none
	if depth >= depthMax {
		return 0, fmt.Errorf("%d test processes are running inside each other already", depth)
	}
	mark := strconv.Itoa(os.Getpid())
	for _, p := range plugins {
		mark += " " + p.Name
	}
	for name, value := range map[string]string{depthVariable: strconv.Itoa(depth + 1), mainVariable: mark} {
		if err := os.Setenv(name, value); err != nil {
			return 0, fmt.Errorf("marking the environment: %w", err)
		}
	}
	return m.Run(), nil
}

// servedName returns the name of the plugin that the arguments ask to serve.
func servedName(args []string) (name string, ok bool) {
	if len(args) == 3 && args[1] == serveArgument {
		return args[2], true
	}
	return "", false
}

// mayStart says why this process must not start itself as the plugin, nil if
// it may.
func mayStart(plugin string, args []string, pid int, mark string) error {
	if _, serves := servedName(args); serves {
		return fmt.Errorf("this is the plugin's process, which should not run tests: call connectortest.Main first thing in TestMain")
	}
	known := strings.Fields(mark)
	if len(known) == 0 || known[0] != strconv.Itoa(pid) {
		return fmt.Errorf("the suite starts the test's executable as the plugin: call connectortest.Main from TestMain, as in\n" +
			"\tfunc TestMain(m *testing.M) { connectortest.Main(m, plugin) }")
	}
	if !slices.Contains(known[1:], plugin) {
		return fmt.Errorf("the plugin %q is not among those that TestMain gives to connectortest.Main: add it there", plugin)
	}
	return nil
}

// requireMain fails the test unless TestMain has called Main.
func requireMain(t *testing.T, p connector.Plugin) {
	t.Helper()
	if err := mayStart(p.Name, os.Args, os.Getpid(), os.Getenv(mainVariable)); err != nil {
		t.Fatalf("connectortest: %v", err)
	}
}
