package connector

// Serve runs the plugin until its host is done with it or has died, and then
// returns. Call it first thing in main. A host starts the executable; run by
// hand, it explains itself on standard error and exits with 1. With the single
// argument "spec" it prints the plugin's spec as JSON and returns.
//
// Serve takes standard output over: what is printed from then on goes to the
// host's log, as standard error does. Anything printed to standard output
// before is an error, which the host reports with what was printed.
//
// When the host dies, even by SIGKILL, Serve ends the process within two
// seconds, without calling Close.
//
// Serve panics if the plugin is not well formed: a bad name, neither a source
// nor a sink, a field without a name or with a default that is not valid.
func Serve(p Plugin) { serve(p) }
