package api

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace/millrace/broker/internal/group"
)

// groupOperations are the operations that there are on groups, as the bits of
// KIP-430: READ, DELETE, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS. All are
// allowed, as nothing is forbidden yet.
const groupOperations = 1<<3 | 1<<6 | 1<<8 | 1<<10 | 1<<11

// DescribeGroups (key 15), versions 0 to 6.
//
// KIP-345 (static members, version 4), KIP-430 (authorised operations, version
// 3), KIP-1043 (GROUP_ID_NOT_FOUND with a message, version 6; before that a
// group that does not exist is Dead, and no error).
//
// A group that is named twice is answered once.
//
// Errors of a group: GROUP_ID_NOT_FOUND and those of finding the coordinator.
func (s *Service) describeGroups(_ *Request, in *kmsg.DescribeGroupsRequest, reply Reply) {
	resp := in.ResponseKind().(*kmsg.DescribeGroupsResponse)
	in.Groups = distinct(in.Groups, func(group *string) string { return *group })
	resp.Groups = make([]kmsg.DescribeGroupsResponseGroup, len(in.Groups))
	gather(len(in.Groups), func(i int, done func()) {
		s.Groups.Describe(in.Groups[i], func(g kmsg.DescribeGroupsResponseGroup) {
			if in.Version >= 6 && g.ErrorCode == 0 && g.State == string(group.Dead) {
				g.ErrorCode, g.ErrorMessage = kerr.GroupIDNotFound.Code, new("group "+g.Group+" does not exist")
			}
			if in.IncludeAuthorizedOperations {
				g.AuthorizedOperations = groupOperations
			}
			resp.Groups[i] = g
			done()
		})
	}, func() { reply(resp) })
}
