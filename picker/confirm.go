package picker

import (
	"context"
	"time"

	"github.com/penstock-project/penstock/picker/endpoint"
)

// confirm reports whether the limit of an endpoint holds for a request that was counted there just
// now. Two processes may take the last slot at once. So a pick that could be one too many waits
// until the peers count it, some milliseconds. If there is one too many then, the processes but the
// first give their slots back, for which the first one waits a fifth of Config.Settle.
//
// As long as a process counts no more than its share of the limit, no pick of it is one too many: N
// processes that each count at most a Nth are within the limit together.
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
