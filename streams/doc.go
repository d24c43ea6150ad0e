// Package streams builds jobs that read topics, compute, and write topics.
package streams
