package server

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-project/penstock/xds/cache"
	"github.com/penstock-project/penstock/xds/publish"
	"github.com/penstock-project/penstock/xds/resource"
)

// BenchmarkResumption measures a reconnect with 1,000 unchanged assignments, from the received
// message to the decision to send nothing. "generated" uses the generated message.
func BenchmarkResumption(b *testing.B) {
	const gateway = "default/gw"
	c := cache.New(cache.Config{})
	asked := &discoveryv3.DeltaDiscoveryRequest{TypeUrl: resource.Endpoints.URL(),
		InitialResourceVersions: map[string]string{}}
	var all []*resource.Resource
	for i := range 1000 {
		name := fmt.Sprintf("service/default/backend-%d/80", i)
		r, err := resource.New(resource.Endpoints, name, &endpointv3.ClusterLoadAssignment{ClusterName: name}, nil, nil)
		if err != nil {
			b.Fatal(err)
		}
		all = append(all, r)
		asked.ResourceNamesSubscribe = append(asked.ResourceNamesSubscribe, name)
		asked.InitialResourceVersions[name] = r.Version
	}
	c.Commit(cache.Batch{Gateway: gateway, Upserts: all})
	encoded, err := proto.Marshal(asked)
	if err != nil {
		b.Fatal(err)
	}
	data := mem.BufferSlice{mem.SliceBuffer(encoded)}
	now := time.Unix(1000, 0)
	resume := func(b *testing.B, r publish.Request) {
		s := publish.New(c.Open(gateway, ""), publish.Config{})
		r.Type = resource.Endpoints
		s.Handle(r, now)
		if out := s.Flush(now); len(out) > 0 {
			b.Fatalf("%d responses to a proxy that has everything, want none", len(out))
		}
		s.Close()
	}
	b.Run("ours", func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			var r deltaRequest
			if err := newCodec().Unmarshal(data, &r); err != nil {
				b.Fatal(err)
			}
			resume(b, publish.Request{Subscribe: r.names(requestSubscribe), Initial: r.initial()})
		}
	})
	b.Run("generated", func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			var r discoveryv3.DeltaDiscoveryRequest
			if err := newCodec().Unmarshal(data, &r); err != nil {
				b.Fatal(err)
			}
			resume(b,
				publish.Request{Subscribe: slices.Values(r.GetResourceNamesSubscribe()),
					Initial: maps.All(r.GetInitialResourceVersions())})
		}
	})
}

// BenchmarkSend measures the cost of a change for one stream, without gRPC.
func BenchmarkSend(b *testing.B) {
	const gateway, name = "default/gw", "service/default/backend-1/80"
	c := cache.New(cache.Config{})
	versions := make([]*resource.Resource, 2)
	for i := range versions {
		a := &endpointv3.ClusterLoadAssignment{ClusterName: name,
			Endpoints: []*endpointv3.LocalityLbEndpoints{{Priority: uint32(i)}}}
		var err error
		if versions[i], err = resource.New(resource.Endpoints, name, a, nil, nil); err != nil {
			b.Fatal(err)
		}
	}
	commit := func(i int) {
		c.Commit(cache.Batch{Gateway: gateway, Upserts: versions[i%2 : i%2+1]})
	}
	commit(1)
	m, err := newMetrics(nil, nil)
	if err != nil {
		b.Fatal(err)
	}
	s := publish.New(c.Open(gateway, ""), publish.Config{})
	now := time.Unix(1000, 0)
	ack := publish.Request{Type: resource.Endpoints, Subscribe: slices.Values([]string{name})}
	s.Handle(ack, now)
	send := func() {
		for _, r := range s.Flush(now) {
			m.sent(r, encodeDelta(r).size)
			ack.Nonce, ack.Subscribe = r.Nonce, nil
			s.Handle(ack, now)
		}
	}
	send()
	b.ReportAllocs()
	for i := range b.N {
		commit(i)
		send()
	}
}
