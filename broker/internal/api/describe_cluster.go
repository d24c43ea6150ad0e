package api

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The kinds of nodes that a client may want described (KIP-919).
const (
	endpointBrokers     = 1
	endpointControllers = 2
)

// DescribeCluster (key 60), versions 0 to 2.
//
// KIP-700 (the API), KIP-919 (kinds of endpoints, version 1), KIP-1073 (fenced
// brokers, version 2: there are none yet).
//
// Errors: MISMATCHED_ENDPOINT_TYPE for controllers, which have no listeners of
// their own; UNSUPPORTED_ENDPOINT_TYPE for what is neither.
func (s *Service) describeCluster(r *Request, in *kmsg.DescribeClusterRequest, reply Reply) {
	resp := in.ResponseKind().(*kmsg.DescribeClusterResponse)
	image := s.Cluster.Image()
	resp.ClusterID, resp.ControllerID = image.ClusterID(), int32(s.BrokerID)
	if in.Version >= 1 {
		resp.EndpointType = in.EndpointType
		if err := checkEndpointType(in.EndpointType); err != nil {
			resp.ErrorCode, resp.ErrorMessage = errorCode(err), errorText(err)
			reply(resp)
			return
		}
	}
	if in.IncludeClusterAuthorizedOperations {
		resp.ClusterAuthorizedOperations = clusterOperations()
	}
	for _, b := range image.Brokers() {
		if e, ok := b.Endpoint(r.Listener); ok {
			out := kmsg.NewDescribeClusterResponseBroker()
			out.NodeID, out.Host, out.Port, out.Rack = int32(b.ID), e.Host, e.Port, nonEmpty(b.Rack)
			resp.Brokers = append(resp.Brokers, out)
		}
	}
	reply(resp)
}

func checkEndpointType(kind int8) error {
	switch kind {
	case endpointBrokers:
		return nil
	case endpointControllers:
		return refusal(kerr.MismatchedEndpointType, "The request was sent to a broker, and asks for controllers.")
	}
	return refusal(kerr.UnsupportedEndpointType, "There are no endpoints of type %d.", kind)
}
