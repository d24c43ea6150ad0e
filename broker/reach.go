package broker

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace/millrace/broker/internal/cluster"
)

// reachTimeout is how long an advertised address may take to answer.
const reachTimeout = 3 * time.Second

// checkAdvertised warns of advertised addresses that lead elsewhere or nowhere:
// clients bootstrap through one that works and then fail at every other
// request, far from the cause. It is no error, as an address may work for
// clients and not from here.
func (b *Broker) checkAdvertised(ctx context.Context) {
	for _, e := range b.endpoints {
		if !b.isAdvertised(e) {
			continue
		}
		reached, err := b.clusterAt(ctx, address(e))
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			b.log.Warn("clients are told an address at which this broker cannot reach itself; check advertised.listeners",
				"listener", e.Listener, "address", address(e), "err", err)
		case reached != b.ClusterID():
			b.log.Warn("clients are told an address at which another cluster answers; check advertised.listeners",
				"listener", e.Listener, "address", address(e), "answers", reached, "cluster", b.ClusterID())
		}
	}
}

// isAdvertised reports whether an address was given by hand.
func (b *Broker) isAdvertised(e cluster.Endpoint) bool {
	for _, a := range b.settings.Advertised {
		if a.Name == e.Listener {
			return true
		}
	}
	return false
}

// clusterAt asks for the id of the cluster that an address belongs to.
func (b *Broker) clusterAt(ctx context.Context, at string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	c, err := b.dial(ctx, "tcp", at)
	if err != nil {
		return "", err
	}
	defer context.AfterFunc(ctx, func() { _ = c.Close() })() // ends what is under way
	defer c.Close()
	return askClusterID(c)
}

// askClusterID sends a Metadata request without topics.
func askClusterID(c net.Conn) (string, error) {
	req := kmsg.NewPtrMetadataRequest()
	req.Version, req.Topics = 4, []kmsg.MetadataRequestTopic{}
	if _, err := c.Write(kmsg.NewRequestFormatter(kmsg.FormatterClientID("millrace")).AppendRequest(nil, req, 1)); err != nil {
		return "", err
	}
	var head [8]byte // length, correlation id
	if _, err := io.ReadFull(c, head[:]); err != nil {
		return "", err
	}
	size := binary.BigEndian.Uint32(head[:])
	const sizeMax = 1 << 20
	if size < 4 || size > sizeMax {
		return "", fmt.Errorf("it does not speak the Kafka protocol")
	}
	body := make([]byte, size-4)
	if _, err := io.ReadFull(c, body); err != nil {
		return "", err
	}
	resp := req.ResponseKind().(*kmsg.MetadataResponse)
	if err := resp.ReadFrom(body); err != nil {
		return "", fmt.Errorf("it does not speak the Kafka protocol: %w", err)
	}
	if resp.ClusterID == nil {
		return "", nil
	}
	return *resp.ClusterID, nil
}
