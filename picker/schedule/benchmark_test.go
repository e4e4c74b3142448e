package schedule

import (
	"math/rand/v2"
	"testing"
	"time"
)

func BenchmarkSchedule100(b *testing.B)  { benchmarkSchedule(b, 100, 10_000, "") }
func BenchmarkSchedule1000(b *testing.B) { benchmarkSchedule(b, 1000, 80_000, "") }

// BenchmarkScheduleAdapter1000 includes finding the homes of an adapter.
func BenchmarkScheduleAdapter1000(b *testing.B) { benchmarkSchedule(b, 1000, 80_000, "adapter") }

func benchmarkSchedule(b *testing.B, n int, limit float64, adapter string) {
	servers := make([]server, n)
	for i := range servers {
		servers[i] = server{queue: i % 3, running: i % 17, kv: float64(i%10) / 10, inFlight: i % 7, stale: i%20 == 0}
	}
	list := endpoints(b, servers...)
	s := strategy(b, Options{Random: rand.Uint64})
	if adapter != "" {
		s.load.adapters.learn(adapter)
		for i := range uint64(2000) {
			s.load.adapters.asked.add(i)
		}
	}
	var scratch Scratch
	r, now := Request{Model: adapter, Tokens: 2000, Stream: true}, epoch
	b.ReportAllocs()
	for b.Loop() {
		now = now.Add(50 * time.Microsecond)
		c := s.Rank(&r, now, list, nil, 3, &scratch)
		_ = c[0].Work(&r)
	}
	b.ReportMetric(limit, "limit-ns/op")
}
