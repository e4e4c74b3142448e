package xdstest_test

import (
	"net"
	"slices"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/penstock-project/penstock/xds/resource"
	"github.com/penstock-project/penstock/xds/xdstest"
	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

// raw answers the first request for clusters with its list, and records NACKs.
type raw struct {
	discoveryv3.UnimplementedAggregatedDiscoveryServiceServer
	clusters []*resource.Resource
	nacks    chan string
}

func (r *raw) DeltaAggregatedResources(
	s grpc.BidiStreamingServer[discoveryv3.DeltaDiscoveryRequest, discoveryv3.DeltaDiscoveryResponse]) error {
	for {
		req, err := s.Recv()
		if err != nil {
			return nil
		}
		switch {
		case req.GetErrorDetail() != nil:
			r.nacks <- req.GetErrorDetail().GetMessage()
		case req.GetTypeUrl() == resource.Cluster.URL() && req.GetResponseNonce() == "":
			out := &discoveryv3.DeltaDiscoveryResponse{TypeUrl: req.GetTypeUrl(), Nonce: "1"}
			for _, c := range r.clusters {
				out.Resources = append(out.Resources, &discoveryv3.Resource{
					Name: c.Name, Version: c.Version, Resource: &anypb.Any{TypeUrl: c.Type.URL(), Value: c.Body()},
				})
			}
			if err := s.Send(out); err != nil {
				return nil
			}
		}
	}
}

// Unlike the cache, raw can send a name twice. Envoy must reject the whole response.
func TestNACK_DuplicateNameRejectsWholeResponse(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &raw{nacks: make(chan string, 1), clusters: list(
		xdstest.Cluster(t, "good", 0), xdstest.Cluster(t, "twin", 0), xdstest.Cluster(t, "twin", 1),
	)}
	s := grpc.NewServer()
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(s, r)
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Stop)
	proxy := startEnvoy(t, &xdstest.Control{Address: l.Addr().String()}, "DELTA_GRPC")
	poll.Until(t, "a NACK", func() bool { return len(r.nacks) > 0 })
	if got := <-r.nacks; got != "duplicate name twin found among added/updated resources" {
		t.Errorf("NACK with %q, want %q", got, "duplicate name twin found among added/updated resources")
	}
	if names := proxy.names(resource.Cluster); slices.Contains(names, "good") {
		t.Errorf("Envoy has %v, want no good: it rejects the whole response", names)
	}
}
