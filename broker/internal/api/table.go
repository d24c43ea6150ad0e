package api

import "github.com/twmb/franz-go/pkg/kmsg"

// row is one API: the versions that are served, and by what.
type row struct {
	key, min, max int16
	handle        func(*Service, *Request, kmsg.Request, Reply)
}

// serve makes a row of a handler. The key follows from the request's type.
func serve[P interface {
	*T
	kmsg.Request
}, T any](min, max int16, handle func(*Service, *Request, P, Reply)) row {
	return row{
		key: P(new(T)).Key(), min: min, max: max,
		handle: func(s *Service, r *Request, in kmsg.Request, reply Reply) { handle(s, r, in.(P), reply) },
	}
}

// table lists all APIs, in the order of their keys. Versions are those that
// work, fields and all; docs/compatibility.md lists what is missing.
func table() []row {
	return []row{
		serve(3, 13, (*Service).produce),
		serve(4, 18, (*Service).fetch),
		serve(1, 11, (*Service).listOffsets),
		serve(0, 13, (*Service).metadata),
		serve(2, 10, (*Service).offsetCommit),
		serve(1, 10, (*Service).offsetFetch),
		serve(0, 6, (*Service).findCoordinator),
		serve(2, 9, (*Service).joinGroup),
		serve(0, 4, (*Service).heartbeat),
		serve(0, 5, (*Service).leaveGroup),
		serve(0, 5, (*Service).syncGroup),
		serve(0, 6, (*Service).describeGroups),
		serve(0, 5, (*Service).listGroups),
		serve(0, 5, (*Service).apiVersions),
		serve(2, 7, (*Service).createTopics),
		serve(1, 6, (*Service).deleteTopics),
		serve(0, 2, (*Service).deleteRecords),
		serve(0, 5, (*Service).initProducerID),
		serve(2, 4, (*Service).offsetForLeaderEpoch),
		serve(1, 4, (*Service).describeConfigs),
		serve(0, 3, (*Service).createPartitions),
		serve(0, 2, (*Service).describeCluster),
		serve(0, 3, (*Service).deleteGroups),
		serve(0, 1, (*Service).incrementalAlterConfigs),
	}
}
