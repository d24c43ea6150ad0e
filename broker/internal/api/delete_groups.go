package api

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// DeleteGroups (key 42), versions 0 to 3.
//
// KIP-229 (the API). Version 3 adds a message to each error.
//
// Errors of a group: GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP, and those of finding
// the coordinator.
func (s *Service) deleteGroups(_ *Request, in *kmsg.DeleteGroupsRequest, reply Reply) {
	resp := in.ResponseKind().(*kmsg.DeleteGroupsResponse)
	resp.Groups = make([]kmsg.DeleteGroupsResponseGroup, len(in.Groups))
	gather(len(in.Groups), func(i int, done func()) {
		s.Groups.Delete(in.Groups[i], func(code int16) {
			g := kmsg.NewDeleteGroupsResponseGroup()
			g.Group, g.ErrorCode = in.Groups[i], code
			if err := kerr.TypedErrorForCode(code); err != nil {
				g.ErrorMessage = new(err.Description)
			}
			resp.Groups[i] = g
			done()
		})
	}, func() { reply(resp) })
}
