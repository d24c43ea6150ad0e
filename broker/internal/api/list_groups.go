package api

import "github.com/twmb/franz-go/pkg/kmsg"

// ListGroups (key 16), versions 0 to 5. Each broker lists the groups that it
// coordinates.
//
// KIP-518 (states, version 4), KIP-848 (types, version 5).
//
// Errors: COORDINATOR_LOAD_IN_PROGRESS and COORDINATOR_NOT_AVAILABLE when some
// of the groups are not at hand; those that are, are listed.
func (s *Service) listGroups(_ *Request, in *kmsg.ListGroupsRequest, reply Reply) {
	resp := in.ResponseKind().(*kmsg.ListGroupsResponse)
	s.Groups.List(in.StatesFilter, in.TypesFilter, func(groups []kmsg.ListGroupsResponseGroup, code int16) {
		resp.Groups, resp.ErrorCode = groups, code
		reply(resp)
	})
}
