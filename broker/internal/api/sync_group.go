package api

import (
	"bytes"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// SyncGroup (key 14), versions 0 to 5.
//
// KIP-345 (static members, version 3), KIP-559 (protocol type and name, version
// 5).
//
// Errors: INVALID_GROUP_ID for an empty name, UNKNOWN_MEMBER_ID,
// ILLEGAL_GENERATION, REBALANCE_IN_PROGRESS, INCONSISTENT_GROUP_PROTOCOL,
// FENCED_INSTANCE_ID, and those of finding the coordinator.
func (s *Service) syncGroup(r *Request, in *kmsg.SyncGroupRequest, reply Reply) {
	refused := func(why *kerr.Error) Body {
		resp := in.ResponseKind().(*kmsg.SyncGroupResponse)
		resp.ErrorCode = why.Code
		return resp
	}
	if in.Group == "" {
		reply(refused(kerr.InvalidGroupID))
		return
	}
	// The coordinator keeps the assignments longer than the frame lives.
	for i := range in.GroupAssignment {
		in.GroupAssignment[i].MemberAssignment = bytes.Clone(in.GroupAssignment[i].MemberAssignment)
	}
	reply = orGone(r.Context, reply, func() Body { return refused(kerr.NotCoordinator) })
	s.Groups.SyncGroup(in, func(resp *kmsg.SyncGroupResponse) { reply(resp) })
}
