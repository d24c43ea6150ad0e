// Package group coordinates consumer groups: who is a member, who owns which
// partitions, and how far each group has read.
//
// # Groups
//
// A group has a name and two parts that need each other little. Its offsets
// are plain data: one per topic and partition. Its membership follows the
// classic protocol (KIP-62, KIP-345, KIP-394, KIP-429, KIP-814): the
// coordinator gathers members (JoinGroup), names one of them leader, and hands
// out the assignment that the leader made (SyncGroup). What is assigned, and
// how, is the members' own affair: a protocol is a name with bytes. So
// consumers, streams and connect workers are all served alike, and eager and
// cooperative assignors differ in nothing that the coordinator sees.
//
// # States
//
//	Empty ──join──▶ PreparingRebalance ──all joined──▶ CompletingRebalance
//	  ▲                ▲          │                        │
//	  └──all left──────┼──────────┘      leader's assignment written
//	                   │                                   ▼
//	                   └──member joins, leaves, dies──── Stable
//
// # What is durable
//
// A group is written to its partition of __consumer_offsets when it becomes
// Stable or Empty, and when a static member comes back in a Stable group
// (docs/format/consumer-offsets.md). A rebalance in progress is soft: if the
// coordinator moves, its group is again what it was before, and its members
// find out by their next heartbeat.
//
// # Parts
//
// [Coordinator] is what the API handlers call. It finds the group's partition
// and hands the request to the machine of that partition, which is pure: see
// package coord. The machine is spread over files by subject: join, sync,
// rebalance, members, offsets, expiry, describe, records.
package group
