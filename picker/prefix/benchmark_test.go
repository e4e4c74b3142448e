package prefix

import (
	"fmt"
	"runtime"
	"testing"
)

// fleet returns an Index with n servers that share the first blocks of a chain, as for a
// conversation that moved between servers. depth returns the number of blocks.
func fleet(n int, c Chain, depth func(i int) int) (*Index, []*Server) {
	x := New(Config{})
	servers := make([]*Server, n)
	for i := range servers {
		servers[i] = x.Server(key(i))
	}
	for i, s := range servers {
		x.Add(s, c[:depth(i)])
	}
	return x, servers
}

func BenchmarkMatch(b *testing.B) {
	var w world
	c := w.grow0(MaxBlocks)
	for _, n := range []int{10, 100, 1000} {
		for _, tt := range []struct {
			name  string
			depth func(i int) int
		}{
			{"nothing", func(int) int { return 0 }},
			{"system prompt", func(i int) int { return 20 + 300*min(i%7/6, 1) }},
			{"every depth", func(i int) int { return i % MaxBlocks }},
		} {
			b.Run(fmt.Sprintf("%d servers/%s", n, tt.name), func(b *testing.B) {
				x, servers := fleet(n, c, tt.depth)
				cached := make([]int32, n)
				b.ReportAllocs()
				for b.Loop() {
					x.Match(c, servers, cached)
				}
			})
		}
	}
}

func BenchmarkAdd(b *testing.B) {
	for _, blocks := range []int{4, 40, 512} {
		b.Run(fmt.Sprintf("known/%d blocks", blocks), func(b *testing.B) {
			var w world
			c := w.grow0(blocks)
			x, servers := fleet(100, c, func(int) int { return blocks })
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				x.Add(servers[i%100], c)
			}
		})
		b.Run(fmt.Sprintf("new/%d blocks", blocks), func(b *testing.B) {
			x, n := fullFleet(1000), uint64(1<<40)
			c := make(Chain, blocks)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				for k := range c {
					n++
					c[k] = mix(n, n)
				}
				x.Add(x.ids[i%1000], c)
			}
		})
	}
}

func (w *world) grow0(blocks int) Chain {
	w.chains = []Chain{nil}
	return w.grow(0, 0, blocks)
}

// fullFleet returns n servers that fill an Index with their blocks, without common prefixes.
func fullFleet(n int) *Index {
	x := New(Config{})
	var servers []*Server
	for i := range n {
		servers = append(servers, x.Server(key(i)))
	}
	next := uint64(0)
	for _, s := range servers {
		s.SetCapacity(1 << 30)
	}
	for x.held.Load() < int64(x.share()*n) {
		for _, s := range servers {
			c := make(Chain, 64)
			for k := range c {
				next++
				c[k] = max(mix(next, next), 1)
			}
			x.Add(s, c)
		}
	}
	return x
}

func BenchmarkMemory(b *testing.B) {
	var before, after runtime.MemStats
	for b.Loop() {
		runtime.GC()
		runtime.ReadMemStats(&before)
		x := fullFleet(1000)
		runtime.GC()
		runtime.ReadMemStats(&after)
		if held := x.held.Load(); held < DefaultBlocks-1000 {
			b.Fatalf("%d blocks, want at least %d", held, DefaultBlocks-1000)
		}
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/(1<<20), "MiB")
		runtime.KeepAlive(x)
	}
	b.ReportMetric(300, "limit-MiB")
}
