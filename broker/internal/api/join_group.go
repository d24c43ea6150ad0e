package api

import (
	"bytes"
	"net"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace/millrace/broker/internal/group"
)

// JoinGroup (key 11), versions 2 to 9, as Kafka 4 serves them (KIP-896).
//
// KIP-345 (static members, version 5), KIP-394 (a member id before joining,
// version 4), KIP-559 (protocol type in the reply, version 7), KIP-800 (reason,
// version 8), KIP-814 (a static leader may skip the assignment, version 9).
//
// Errors: INVALID_GROUP_ID for an empty name, INVALID_SESSION_TIMEOUT,
// INCONSISTENT_GROUP_PROTOCOL, UNKNOWN_MEMBER_ID, MEMBER_ID_REQUIRED,
// FENCED_INSTANCE_ID, GROUP_MAX_SIZE_REACHED, and those of finding the
// coordinator: NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS,
// COORDINATOR_NOT_AVAILABLE.
func (s *Service) joinGroup(r *Request, in *kmsg.JoinGroupRequest, reply Reply) {
	refused := func(why *kerr.Error) Body {
		resp := in.ResponseKind().(*kmsg.JoinGroupResponse)
		resp.MemberID, resp.ErrorCode = in.MemberID, why.Code
		return resp
	}
	if in.Group == "" {
		reply(refused(kerr.InvalidGroupID))
		return
	}
	// The coordinator keeps the metadata longer than the frame lives.
	for i := range in.Protocols {
		in.Protocols[i].Metadata = bytes.Clone(in.Protocols[i].Metadata)
	}
	reply = orGone(r.Context, reply, func() Body { return refused(kerr.NotCoordinator) })
	client := group.Client{ID: r.ClientID, Host: clientHost(r.ClientAddr)}
	s.Groups.JoinGroup(client, in, func(resp *kmsg.JoinGroupResponse) { reply(resp) })
}

// clientHost is a client's address in the form that Kafka's tools show.
func clientHost(addr net.Addr) string {
	host, _, err := net.SplitHostPort(addr.String())
	if err != nil {
		host = addr.String()
	}
	return "/" + host
}
