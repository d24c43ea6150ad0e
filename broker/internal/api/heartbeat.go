package api

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Heartbeat (key 12), versions 0 to 4.
//
// KIP-345 (static members, version 3).
//
// Errors: INVALID_GROUP_ID for an empty name, UNKNOWN_MEMBER_ID,
// ILLEGAL_GENERATION, REBALANCE_IN_PROGRESS (join again), FENCED_INSTANCE_ID,
// and those of finding the coordinator.
func (s *Service) heartbeat(_ *Request, in *kmsg.HeartbeatRequest, reply Reply) {
	if in.Group == "" {
		resp := in.ResponseKind().(*kmsg.HeartbeatResponse)
		resp.ErrorCode = kerr.InvalidGroupID.Code
		reply(resp)
		return
	}
	s.Groups.Heartbeat(in, func(resp *kmsg.HeartbeatResponse) { reply(resp) })
}
