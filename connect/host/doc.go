// Package host finds connector plugins and runs their tasks, each as a process
// of its own.
//
// A [Host] knows the plugins: those bundled with the program, which runs
// itself as "<self> plugin serve <name>", and executables called
// millrace-plugin-<name> in the plugin folders. What a plugin is and which
// settings it has, is read without opening it.
//
// A [Source] or [Sink] is one task. Opening it returns at once; the process is
// started, supervised and restarted behind it. Callers of Read and Write do
// not notice when the process dies, beyond a pause and the [Status]:
//
//	starting -> running -> backing off -> starting -> ...
//	                   \-> failed
//
// A source that was restarted resumes behind the last record that Read
// returned, so that the death of a plugin duplicates and loses nothing. A sink
// is sent the batch again that was being written. Only a connector's own
// error, or a process that keeps dying without getting anything done, fails
// the task.
package host
