// Package protocol is what travels between a host and a connector plugin: the
// gRPC service of connector.proto, the handshake, and the Arrow form of
// batches. docs/format/connector-protocol.md describes all of it for
// implementers in other languages.
//
// It is for package connector, which plugins are written against, and for the
// host. Both have richer types of their own; a [BatchWriter] takes records
// apart and a [BatchReader] gives their parts back, so that Arrow is known
// here only.
package protocol
