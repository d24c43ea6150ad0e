package broker_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace/millrace/broker/brokertest"
)

func apiVersions(version int16) *kmsg.ApiVersionsRequest {
	req := kmsg.NewPtrApiVersionsRequest()
	req.Version, req.ClientSoftwareName, req.ClientSoftwareVersion = version, "test", "1.0"
	return req
}

func TestApiVersions(t *testing.T) {
	c := brokertest.Start(t)
	conn := dial(t, c)
	for version := range int16(6) {
		resp := ask[*kmsg.ApiVersionsResponse](conn, apiVersions(version))
		wantCode(t, fmt.Sprintf("version %d", version), resp.ErrorCode, nil)
		if len(resp.ApiKeys) == 0 || resp.ApiKeys[0].ApiKey != int16(kmsg.Produce) || resp.ApiKeys[0].MinVersion != 0 {
			t.Fatalf("Produce is not advertised first, from version 0: %+v", resp.ApiKeys)
		}
	}
	metadata := ask[*kmsg.MetadataResponse](conn, with(kmsg.NewPtrMetadataRequest(), func(r *kmsg.MetadataRequest) { r.Version = 9 }))
	cluster, node := metadata.ClusterID, metadata.Brokers[0].NodeID
	other := "another"
	for name, test := range map[string]struct {
		cluster *string
		node    int32
		want    *kerr.Error
	}{
		"this broker":      {cluster, node, nil},
		"another cluster":  {&other, node, kerr.RebootstrapRequired},
		"another node":     {cluster, node + 1, kerr.RebootstrapRequired},
		"only the cluster": {cluster, -1, kerr.InvalidRequest},
		"only the node":    {nil, node, kerr.InvalidRequest},
	} {
		req := with(apiVersions(5), func(r *kmsg.ApiVersionsRequest) { r.ClusterID, r.NodeID = test.cluster, test.node })
		wantCode(t, name, ask[*kmsg.ApiVersionsResponse](conn, req).ErrorCode, test.want)
	}
	bad := with(apiVersions(3), func(r *kmsg.ApiVersionsRequest) { r.ClientSoftwareName = "-not-allowed-" })
	wantCode(t, "a bad software name", ask[*kmsg.ApiVersionsResponse](conn, bad).ErrorCode, kerr.InvalidRequest)
}

func TestTooNewApiVersionsIsAnsweredWithVersion0(t *testing.T) {
	c := brokertest.Start(t)
	conn := dial(t, c)
	frame := kmsg.NewRequestFormatter().AppendRequest(nil, apiVersions(5), 7)
	frame[7] = 99 // the version
	if _, err := conn.Write(frame); err != nil {
		t.Fatal(err)
	}
	resp := kmsg.NewPtrApiVersionsResponse() // version 0
	conn.receive(resp)
	wantCode(t, "version 99", resp.ErrorCode, kerr.UnsupportedVersion)
	if len(resp.ApiKeys) < 10 {
		t.Errorf("the list has %d APIs", len(resp.ApiKeys))
	}
	ask[*kmsg.ApiVersionsResponse](conn, apiVersions(3)) // the connection goes on
}

// TestEveryAdvertisedVersionIsAnswered sends each API's empty request at each
// version: whatever the answer says, it must be one that kmsg can decode.
func TestEveryAdvertisedVersionIsAnswered(t *testing.T) {
	c := brokertest.Start(t)
	for _, k := range ask[*kmsg.ApiVersionsResponse](dial(t, c), apiVersions(3)).ApiKeys {
		first := k.MinVersion
		if k.ApiKey == int16(kmsg.Produce) {
			first = 3 // older ones are advertised only
		}
		for version := first; version <= k.MaxVersion; version++ {
			t.Run(fmt.Sprintf("%s/%d", kmsg.NameForKey(k.ApiKey), version), func(t *testing.T) {
				req := kmsg.RequestForKey(k.ApiKey)
				if d, ok := req.(interface{ Default() }); ok {
					d.Default()
				}
				req.SetVersion(version)
				if p, ok := req.(*kmsg.ProduceRequest); ok {
					p.Acks = 1 // 0 asks for no answer
				}
				ask[kmsg.Response](dial(t, c), req)
			})
		}
	}
}

func TestUnsupportedVersionsCloseTheConnection(t *testing.T) {
	c := brokertest.Start(t)
	for name, req := range map[string]kmsg.Request{
		"produce 2":      with(kmsg.NewPtrProduceRequest(), func(r *kmsg.ProduceRequest) { r.Version = 2 }),
		"an unknown API": kmsg.NewPtrWriteTxnMarkersRequest(),
	} {
		t.Run(name, func(t *testing.T) {
			conn := dial(t, c)
			conn.send(req)
			conn.wantClosed()
		})
	}
}

func TestMalformedFramesHarmNobodyElse(t *testing.T) {
	c := brokertest.Start(t)
	good := dial(t, c)
	frame := kmsg.NewRequestFormatter().AppendRequest(nil, apiVersions(3), 1)
	cut := append([]byte(nil), frame[:len(frame)-8]...)
	cut[3] -= 8
	manyTopics := []byte{0, 0, 0, 18, 0, 3, 0, 1, 0, 0, 0, 1, 0, 0, 0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0}
	for name, bytes := range map[string][]byte{
		"body that ends early":   cut,
		"absurd array":           manyTopics,
		"length of 2 GiB":        {0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 9},
		"negative length":        {0xff, 0xff, 0xff, 0xff, 0, 0, 0, 9},
		"2 MiB of another API":   {0, 0x20, 0, 0, 0, 1, 0, 9},
		"TLS client hello":       {0x16, 0x03, 0x01, 0x02, 0x00, 0x01, 0x00, 0x01, 0xfc, 0x03, 0x03},
		"HTTP":                   []byte("GET /metrics HTTP/1.1\r\n\r\n"),
		"header without its end": {0, 0, 0, 10, 0, 18, 0, 3, 0, 0, 0, 1, 0x7f, 0xff},
	} {
		t.Run(name, func(t *testing.T) {
			bad := dial(t, c)
			if _, err := bad.Write(bytes); err != nil {
				t.Fatal(err)
			}
			bad.wantClosed()
			ask[*kmsg.ApiVersionsResponse](good, apiVersions(3))
		})
	}
}

func TestManyClientsAtOnce(t *testing.T) {
	c := brokertest.Start(t)
	createTopic(t, newClient(t, c), "views", 8, nil)
	const clients, each = 40, 25
	var wg sync.WaitGroup
	for range clients {
		client := newClient(t, c)
		wg.Go(func() { produce(t, client, "views", numbered(each)...) })
	}
	wg.Wait()
	consume(t, newClient(t, c, fromStart("views")...), clients*each)
}
