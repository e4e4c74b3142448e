package server_test

import (
	"fmt"
	"net"
	"runtime"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"

	"github.com/penstock-project/penstock/xds/cache"
	"github.com/penstock-project/penstock/xds/resource"
	"github.com/penstock-project/penstock/xds/server"
	"github.com/penstock-project/penstock/xds/xdstest"
)

// BenchmarkFanout measures the time from the change of one of 5,000 assignments until 1,000 streams
// have ACKed it over gRPC.
func BenchmarkFanout(b *testing.B) {
	c := xdstest.Serve(b, server.Config{})
	var all []*resource.Resource
	for i := range 5000 {
		all = append(all, xdstest.Endpoints(b, fmt.Sprintf("cluster-%d", i), 1))
	}
	c.Commit(all)
	conn := dial(b, c)
	streams := make([]*client, 1000)
	for i := range streams {
		streams[i] = connect(b, conn, fmt.Sprint(i))
	}
	b.ResetTimer()
	for i := range b.N {
		c.Commit([]*resource.Resource{xdstest.Endpoints(b, "cluster-0", uint32(2+i%60000))})
		for _, s := range streams {
			s.next()
		}
	}
}

// BenchmarkIdleStream measures the memory of a stream with its client, and its ratio to a bare gRPC
// stream.
func BenchmarkIdleStream(b *testing.B) {
	ours := xdstest.Serve(b, server.Config{})
	ours.Commit([]*resource.Resource{xdstest.Endpoints(b, "cluster-0", 1)})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	bare := grpc.NewServer()
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(bare, once{})
	go func() { _ = bare.Serve(l) }()
	b.Cleanup(bare.Stop)

	floor := perStream(b, dial(b, &xdstest.Control{Address: l.Addr().String()}))
	took := perStream(b, dial(b, ours))
	b.ReportMetric(took, "bytes/stream")
	b.ReportMetric(floor, "grpc-bytes/stream")
	b.ReportMetric(took/floor, "ratio")
	b.ReportMetric(1.5, "limit-ratio")
}

type once struct {
	discoveryv3.UnimplementedAggregatedDiscoveryServiceServer
}

func (once) DeltaAggregatedResources(
	s grpc.BidiStreamingServer[discoveryv3.DeltaDiscoveryRequest, discoveryv3.DeltaDiscoveryResponse]) error {
	for n := 0; ; n++ {
		if _, err := s.Recv(); err != nil {
			return nil
		}
		if n == 0 {
			if err := s.Send(&discoveryv3.DeltaDiscoveryResponse{Nonce: "1"}); err != nil {
				return nil
			}
		}
	}
}

func perStream(b *testing.B, conn *grpc.ClientConn) float64 {
	connect(b, conn, "first")
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	n := b.N + 100
	for i := range n {
		connect(b, conn, fmt.Sprint(i))
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	return float64(after.HeapInuse+after.StackInuse-before.HeapInuse-before.StackInuse) / float64(n)
}

// BenchmarkCommit measures one change of a gateway with n resources. The time must not depend on n.
func BenchmarkCommit(b *testing.B) {
	for _, n := range []int{100, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			store := cache.New(cache.Config{})
			var all []*resource.Resource
			for i := range n {
				all = append(all, xdstest.Endpoints(b, fmt.Sprintf("cluster-%d", i), 1))
			}
			store.Commit(cache.Batch{Gateway: xdstest.Gateway, Upserts: all})
			two := [][]*resource.Resource{{xdstest.Endpoints(b, "cluster-0", 2)},
				{xdstest.Endpoints(b, "cluster-0", 3)}}
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N {
				store.Commit(cache.Batch{Gateway: xdstest.Gateway, Upserts: two[i%2]})
			}
		})
	}
}
