package server_test

import (
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/penstock-project/penstock/xds/resource"
	"github.com/penstock-project/penstock/xds/xdstest"
)

// client is a delta client that subscribes to the endpoints of cluster-0, and ACKs.
type client struct {
	t      testing.TB
	stream grpc.BidiStreamingClient[discoveryv3.DeltaDiscoveryRequest, discoveryv3.DeltaDiscoveryResponse]
}

func dial(t testing.TB, c *xdstest.Control, options ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(c.Address, append(options, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func connect(t testing.TB, conn *grpc.ClientConn, node string) *client {
	t.Helper()
	out := subscribe(t, conn, xdstest.Gateway, node)
	out.next()
	return out
}

func subscribe(t testing.TB, conn *grpc.ClientConn, gateway, node string) *client {
	t.Helper()
	s, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	out := &client{t: t, stream: s}
	out.send(&discoveryv3.DeltaDiscoveryRequest{
		Node: &corev3.Node{Id: node, Cluster: gateway}, ResourceNamesSubscribe: []string{"cluster-0"},
	})
	return out
}

func (c *client) send(r *discoveryv3.DeltaDiscoveryRequest) {
	c.t.Helper()
	r.TypeUrl = resource.Endpoints.URL()
	if err := c.stream.Send(r); err != nil {
		c.t.Fatal(err)
	}
}

func (c *client) receive() *discoveryv3.DeltaDiscoveryResponse {
	c.t.Helper()
	r, err := c.stream.Recv()
	if err != nil {
		c.t.Fatal(err)
	}
	return r
}

func (c *client) next() *discoveryv3.DeltaDiscoveryResponse {
	c.t.Helper()
	r := c.receive()
	c.send(&discoveryv3.DeltaDiscoveryRequest{ResponseNonce: r.GetNonce()})
	return r
}
