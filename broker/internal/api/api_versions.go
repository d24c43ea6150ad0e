package api

import (
	"cmp"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace/millrace/broker/internal/ident"
	"github.com/millrace/millrace/broker/internal/wire"
)

// ApiVersions (key 18), versions 0 to 5.
//
// KIP-35 (the API), KIP-511 (client software name, version 3; an unknown
// version is answered with version 0), KIP-584 (features: there are none yet
// that clients choose a protocol by, so none is listed), KIP-1242 (the cluster
// and node that the client means, version 5).
//
// Errors: UNSUPPORTED_VERSION for a version that is too new, with the list of
// versions in a reply of version 0; INVALID_REQUEST for a client software name
// or version that KIP-511 does not allow, and for a cluster without a node or
// the reverse; REBOOTSTRAP_REQUIRED when the client means another cluster or
// node, as happens when an address changes hands.
func (s *Service) apiVersions(r *Request, in *kmsg.ApiVersionsRequest, reply Reply) {
	resp := in.ResponseKind().(*kmsg.ApiVersionsResponse)
	if err := s.checkClient(in); err != nil {
		resp.ErrorCode = errorCode(err)
		reply(resp)
		return
	}
	resp.ApiKeys = s.advertised()
	reply(resp)
}

// checkClient checks what a client says of itself, and of whom it means.
func (s *Service) checkClient(in *kmsg.ApiVersionsRequest) error {
	if in.Version >= 3 && !(validSoftwareName(in.ClientSoftwareName) && validSoftwareName(in.ClientSoftwareVersion)) {
		return kerr.InvalidRequest
	}
	if in.Version < 5 || in.ClusterID == nil && in.NodeID == int32(ident.NoBroker) {
		return nil // it asks whoever is there
	}
	switch {
	case in.ClusterID == nil, in.NodeID == int32(ident.NoBroker):
		return kerr.InvalidRequest
	case *in.ClusterID != s.Cluster.Image().ClusterID(), in.NodeID != int32(s.BrokerID):
		return kerr.RebootstrapRequired
	}
	return nil
}

// apiVersionsTooNew answers a version that we do not know: the client cannot
// be expected to read anything but version 0 (KIP-511).
func (s *Service) apiVersionsTooNew(h wire.Header) *wire.Reply {
	resp := kmsg.NewPtrApiVersionsResponse()
	resp.ErrorCode = kerr.UnsupportedVersion.Code
	resp.ApiKeys = s.advertised()
	return wire.Encode(h, resp)
}

// advertised lists the served APIs by key. Produce is advertised from 0 though
// served from 3, as Kafka 4 does: librdkafka stops compressing otherwise
// (KAFKA-18659).
func (s *Service) advertised() []kmsg.ApiVersionsResponseApiKey {
	keys := make([]kmsg.ApiVersionsResponseApiKey, 0, len(s.rows))
	for _, row := range s.rows {
		k := kmsg.NewApiVersionsResponseApiKey()
		k.ApiKey, k.MinVersion, k.MaxVersion = row.key, row.min, row.max
		if k.ApiKey == int16(kmsg.Produce) {
			k.MinVersion = 0
		}
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b kmsg.ApiVersionsResponseApiKey) int { return cmp.Compare(a.ApiKey, b.ApiKey) })
	return keys
}

// validSoftwareName holds KIP-511's pattern [a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?.
func validSoftwareName(name string) bool {
	alnum := func(c byte) bool {
		return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
	}
	if name == "" || !alnum(name[0]) || !alnum(name[len(name)-1]) {
		return false
	}
	for i := range len(name) {
		if c := name[i]; !alnum(c) && c != '-' && c != '.' {
			return false
		}
	}
	return true
}
