package picker

import (
	"context"
	"time"

	"github.com/penstock-project/penstock/picker/endpoint"
)

// confirm returns whether a pick may keep its place at an endpoint with a limit of requests in
// flight. Two processes may take the last place concurrently. So a pick that could exceed the
// limit waits until the peers count its request. If the requests of all processes then exceed the
// limit, only the first process (Peers.Order) may keep its place: it waits up to a fifth of
// Config.Settle until the other processes have released their places.
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
