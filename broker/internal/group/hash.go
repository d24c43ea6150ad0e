package group

import (
	"math"
	"unicode/utf16"
)

// partitionOf returns the partition of __consumer_offsets that holds a group.
// Kafka's tools and brokers compute the same, so it must never change: the
// absolute value of Java's String.hashCode, modulo the number of partitions.
func partitionOf(group string, partitions int32) int32 {
	h := javaHash(group)
	if h == math.MinInt32 { // has no absolute value; Kafka takes 0
		return 0
	}
	return max(h, -h) % partitions
}

// javaHash is Java's String.hashCode, which runs over UTF-16 code units.
func javaHash(s string) int32 {
	var h int32
	for _, unit := range utf16.Encode([]rune(s)) {
		h = 31*h + int32(unit)
	}
	return h
}
