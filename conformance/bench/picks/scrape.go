package picks

import (
	"context"
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/penstock-project/penstock/picker/endpoint"
)

// scrape reads the metrics pages of servers until ctx ends. A busy pool has four picks of each
// endpoint in 50 ms, where two have its page read as early as the limit of 20 a second allows; the
// limit of 1,000 pages a second in all is lifted for it.
func scrape(ctx context.Context, busy bool, servers []string) {
	c := endpoint.Config{Jitter: rand.Float64}
	every := time.Second
	if busy {
		c.PerSecond, every = 1_000_000, 25*time.Millisecond
	}
	registry := endpoint.NewRegistry(c)
	var specs []endpoint.Spec
	for _, s := range servers {
		specs = append(specs, endpoint.Spec{Addr: netip.MustParseAddrPort(s)})
	}
	pool, leases := registry.Snapshot(endpoint.Metrics{}, nil, specs), endpoint.NewLeases("bench", time.Minute)
	go func() { _ = registry.Run(ctx) }()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for ctx.Err() == nil {
		pool.MarkUsed()
		for i := range pool.Endpoints {
			for range 2 {
				if !busy {
					break
				}
				lease := leases.Open(&pool.Endpoints[i], endpoint.Holder{}, endpoint.Work{}, 0, time.Now())
				lease.Release()
				lease.Done()
			}
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}
