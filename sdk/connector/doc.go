// Package connector is what the author of a connector needs: implement
// [Source] or [Sink], describe its settings, and call [Serve].
package connector
