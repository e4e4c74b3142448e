package envoy

import (
	"fmt"
	"net"
	"sync"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/penstock-project/penstock/xds/resource"
)

// feeder is a minimal delta ADS server: it answers each subscription once, and records NACKs.
type feeder struct {
	discoveryv3.UnimplementedAggregatedDiscoveryServiceServer
	resources map[resource.Ref]*resource.Resource

	mu    sync.Mutex
	nacks []string
}

func startFeeder(t testing.TB, resources []*resource.Resource) (f *feeder, address string) {
	t.Helper()
	f = &feeder{resources: map[resource.Ref]*resource.Resource{}}
	for _, r := range resources {
		if f.resources[r.Ref] != nil {
			t.Fatalf("%s is there twice", r.Ref)
		}
		f.resources[r.Ref] = r
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(s, f)
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Stop)
	return f, l.Addr().String()
}

func (f *feeder) rejected() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string(nil), f.nacks...)
}

func (f *feeder) DeltaAggregatedResources(
	s discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer) error {
	started := map[resource.Type]bool{}
	for nonce := 0; ; nonce++ {
		req, err := s.Recv()
		if err != nil {
			return nil // Envoy has ended with the test
		}
		typ, ok := resource.TypeOf(req.TypeUrl)
		if !ok {
			return fmt.Errorf("type %s, want a known one", req.TypeUrl)
		}
		if d := req.ErrorDetail; d != nil {
			f.mu.Lock()
			f.nacks = append(f.nacks, d.Message)
			f.mu.Unlock()
		}
		wildcard := (typ == resource.Cluster || typ == resource.Listener) && !started[typ]
		if req.ResponseNonce != "" || !wildcard && len(req.ResourceNamesSubscribe) == 0 {
			continue
		}
		started[typ] = true
		resp := &discoveryv3.DeltaDiscoveryResponse{TypeUrl: req.TypeUrl, Nonce: fmt.Sprint(nonce)}
		send := func(r *resource.Resource) {
			resp.Resources = append(resp.Resources, &discoveryv3.Resource{
				Name: r.Name, Version: r.Version, Resource: &anypb.Any{TypeUrl: req.TypeUrl, Value: r.Body()},
			})
		}
		if wildcard {
			for ref, r := range f.resources {
				if ref.Type == typ {
					send(r)
				}
			}
		}
		for _, name := range req.ResourceNamesSubscribe {
			if r := f.resources[resource.Ref{Type: typ, Name: name}]; r != nil {
				send(r)
			} else {
				resp.RemovedResources = append(resp.RemovedResources, name)
			}
		}
		if err := s.Send(resp); err != nil {
			return nil
		}
	}
}
