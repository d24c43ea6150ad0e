package api

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// LeaveGroup (key 13), versions 0 to 5.
//
// KIP-345 (many members in one request, also by their static names, version 3),
// KIP-800 (reason, version 5).
//
// Errors: INVALID_GROUP_ID for an empty name, and those of finding the
// coordinator; for each member UNKNOWN_MEMBER_ID and FENCED_INSTANCE_ID.
func (s *Service) leaveGroup(_ *Request, in *kmsg.LeaveGroupRequest, reply Reply) {
	if in.Group == "" {
		resp := in.ResponseKind().(*kmsg.LeaveGroupResponse)
		resp.ErrorCode = kerr.InvalidGroupID.Code
		reply(resp)
		return
	}
	s.Groups.LeaveGroup(in, func(resp *kmsg.LeaveGroupResponse) { reply(resp) })
}
