package picker

import (
	"context"
	"time"

	"github.com/penstock-project/penstock/picker/endpoint"
)

// Two processes may take an endpoint's last slot concurrently, so a pick that could exceed the
// limit waits until the peers count its request. If the limit is then exceeded, all processes but
// the first give their slots back; the first process waits a fifth of Config.Settle for this.
func (p *Picker) confirm(ctx context.Context, at *endpoint.Load, limit int64) bool {
	others, _ := p.config.Peers.Order()
	if others == 0 || at.Total()*int64(others+1) <= limit {
		return true
	}
	wait, cancel := context.WithTimeout(ctx, p.config.Settle)
	defer cancel()
	p.config.Peers.Settle(wait)
	if _, first := p.config.Peers.Order(); at.Total() <= limit || !first {
		return at.Total() <= limit
	}
	late, tick := time.NewTimer(p.config.Settle/5), time.NewTicker(time.Millisecond)
	defer late.Stop()
	defer tick.Stop()
	for at.Total() > limit {
		select {
		case <-ctx.Done():
			return false
		case <-late.C:
			return false
		case <-tick.C:
		}
	}
	return true
}
