// Package connect runs source and sink connectors against a Kafka cluster.
//
// A [Worker] keeps all that it knows in three compacted topics of that
// cluster: the configurations of connectors, the positions of sources, and
// the statuses that it reports. So a worker can stop, or die, and another one
// (or the same, started again) goes on where it was.
//
// Each task of a connector is a process of its own, which package host starts
// and supervises. The worker moves records between that process and topics:
//
//	source:  plugin process -> worker -> topic; the position of a record is
//	         stored only after the broker has acknowledged the record
//	sink:    topic -> worker -> plugin process; the offset of a record is
//	         committed only after the plugin has said that it is durable
//
// Both give at-least-once delivery, whatever dies when.
//
// The REST API (package rest), the names and values of settings, and the
// layout of the three topics are those of Kafka Connect, so that its tools and
// its users' habits work. docs/format/connect-topics.md describes the topics.
package connect
