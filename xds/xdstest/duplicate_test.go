package xdstest_test

import (
	"net"
	"slices"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/penstock-project/penstock/xds/resource"
	"github.com/penstock-project/penstock/xds/xdstest"
)

// raw is an ADS server that answers a proxy's first request for clusters with what it holds, and notes what is refused.
type raw struct {
	discoveryv3.UnimplementedAggregatedDiscoveryServiceServer
	clusters []*resource.Resource
	refused  chan string
}

func (r *raw) DeltaAggregatedResources(s grpc.BidiStreamingServer[discoveryv3.DeltaDiscoveryRequest, discoveryv3.DeltaDiscoveryResponse]) error {
	for {
		req, err := s.Recv()
		if err != nil {
			return nil // the proxy is gone
		}
		switch {
		case req.GetErrorDetail() != nil:
			r.refused <- req.GetErrorDetail().GetMessage()
		case req.GetTypeUrl() == resource.Cluster.URL() && req.GetResponseNonce() == "":
			out := &discoveryv3.DeltaDiscoveryResponse{TypeUrl: req.GetTypeUrl(), Nonce: "1"}
			for _, c := range r.clusters {
				out.Resources = append(out.Resources, &discoveryv3.Resource{
					Name: c.Name, Version: c.Version, Resource: &anypb.Any{TypeUrl: c.Type.URL(), Value: c.Body()},
				})
			}
			if err := s.Send(out); err != nil {
				return nil // the proxy is gone
			}
		}
	}
}

// Our cache cannot hold a name twice, so that a server without one has to show what Envoy makes of it: all of the response
// is lost, and its words name the culprit where publish does not look for it. What publish does with words that name
// nothing, each resource in a response of its own, is then right as well.
func TestANameTwiceInAResponseCostsAllOfIt(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &raw{refused: make(chan string, 1), clusters: list(
		xdstest.Cluster(t, "good", 0), xdstest.Cluster(t, "twin", 0), xdstest.Cluster(t, "twin", 1),
	)}
	s := grpc.NewServer()
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(s, r)
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Stop)
	proxy := startEnvoy(t, &xdstest.Control{Address: l.Addr().String()}, "DELTA_GRPC")
	select {
	case got := <-r.refused:
		if got != "duplicate name twin found among added/updated resources" {
			t.Errorf("refused with %q", got)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("nothing was refused")
	}
	if names := proxy.names(resource.Cluster); slices.Contains(names, "good") {
		t.Errorf("it has %v", names)
	}
}
