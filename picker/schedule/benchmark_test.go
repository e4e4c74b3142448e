package schedule

import (
	"math/rand/v2"
	"testing"
	"time"
)

func BenchmarkSchedule100(b *testing.B)  { benchmarkSchedule(b, 100, 10_000) }
func BenchmarkSchedule1000(b *testing.B) { benchmarkSchedule(b, 1000, 80_000) }

// benchmarkSchedule measures a pick among n endpoints that have requests in flight.
func benchmarkSchedule(b *testing.B, n int, limit float64) {
	servers := make([]server, n)
	for i := range servers {
		servers[i] = server{queue: i % 3, running: i % 17, kv: float64(i%10) / 10, inFlight: i % 7, stale: i%20 == 0}
	}
	list := endpoints(b, servers...)
	s := strategy(b, Options{Random: rand.Uint64})
	var scratch Scratch
	r, now := Request{Tokens: 2000, Stream: true}, epoch
	b.ReportAllocs()
	for b.Loop() {
		now = now.Add(50 * time.Microsecond)
		c := s.Rank(&r, now, list, nil, 3, &scratch)
		_ = c[0].Work(&r)
	}
	b.ReportMetric(limit, "limit-ns/op")
}
