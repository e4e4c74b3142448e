package picker

import (
	"context"
	"net/netip"
	"time"
)

// Dead implements extproc.Failures. A server that is dead is suspect at once, so that further picks name others first.
func (p *Picker) Dead(ctx context.Context, gateway, name string, server netip.AddrPort) bool {
	pool := p.pool(name)
	if pool == nil || !p.allowed(gateway, pool.ID) {
		return false
	}
	load := pool.snapshot.Find(server)
	if load == nil || !p.liveness.Dead(ctx, server, pool.Metrics.TLS) {
		return false
	}
	load.Died(time.Now())
	return true
}
