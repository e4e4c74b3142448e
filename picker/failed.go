package picker

import (
	"context"
	"net/netip"
	"slices"
	"time"
)

// Dead implements extproc.Failures: it probes the server. Picks treat a dead server as suspect.
func (p *Picker) Dead(ctx context.Context, gateway, name string, server netip.AddrPort) bool {
	pool := p.pool(name)
	if pool == nil || !p.allowed(gateway, pool.ID) {
		return false
	}
	load := pool.snapshot.Find(server)
	if load == nil && !p.elsewhere(pool, server) || !p.asks.liveness.Dead(ctx, server, pool.Metrics.Protocol) {
		return false
	}
	if load != nil {
		load.Died(time.Now())
	}
	return true
}

func (p *Picker) elsewhere(pool *pool, server netip.AddrPort) bool {
	relay := pool.Relay
	if relay == nil {
		return false
	}
	if slices.ContainsFunc(pool.Servers, func(s Server) bool { return s.Addr == server }) {
		return true
	}
	if relay.Listed || len(relay.Within) == 0 {
		return false
	}
	inside, _ := p.nameable(relay, []string{server.String()})
	return len(inside) > 0
}
