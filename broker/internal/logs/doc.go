// Package logs keeps all partitions of a broker: one folder that holds a folder
// for each, and what belongs to all of them (docs/format/data-folder.md).
//
// The folder is locked, and marked with the broker's and the cluster's id, so
// that no other broker writes into it by mistake. Offsets that must survive,
// such as recovery points, are written to checkpoint files in Kafka's format
// every second. A pool of syncers flushes the logs, and one loop deletes old
// segments.
package logs
