package server_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/penstock-project/penstock/xds/cache"
	"github.com/penstock-project/penstock/xds/resource"
	"github.com/penstock-project/penstock/xds/server"
	"github.com/penstock-project/penstock/xds/xdstest"
)

// BenchmarkFanout is one assignment that changes, of a gateway with 5,000, until 1,000 streams of one process have
// received and ACKed it over gRPC: the clients' share is in it.
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

// BenchmarkIdleStream is the memory that one more stream takes, client and connection not counted apart.
func BenchmarkIdleStream(b *testing.B) {
	c := xdstest.Serve(b, server.Config{})
	c.Commit([]*resource.Resource{xdstest.Endpoints(b, "cluster-0", 1)})
	conn := dial(b, c)
	connect(b, conn, "first")
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range b.N {
		connect(b, conn, fmt.Sprint(i))
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64(after.HeapInuse+after.StackInuse-before.HeapInuse-before.StackInuse)/float64(b.N), "bytes/stream")
}

// BenchmarkCommit is one change of a gateway of the given size, with nobody connected: it must not depend on the size.
func BenchmarkCommit(b *testing.B) {
	for _, n := range []int{100, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			store := cache.New(cache.Config{})
			var all []*resource.Resource
			for i := range n {
				all = append(all, xdstest.Endpoints(b, fmt.Sprintf("cluster-%d", i), 1))
			}
			store.Commit(cache.Batch{Gateway: xdstest.Gateway, Upserts: all})
			two := [][]*resource.Resource{{xdstest.Endpoints(b, "cluster-0", 2)}, {xdstest.Endpoints(b, "cluster-0", 3)}}
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N {
				store.Commit(cache.Batch{Gateway: xdstest.Gateway, Upserts: two[i%2]})
			}
		})
	}
}
