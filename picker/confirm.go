package picker

import (
	"context"
	"time"

	"github.com/penstock-project/penstock/picker/endpoint"
)

// confirm reports whether the limit of an endpoint holds for a request that was counted there just now. Two processes may
// take the last slot at once. So a pick that could be one too many waits until the peers count it, some milliseconds. If
// there is one too many then, the processes but the first give their slots back, for which the first one waits a fifth of Config.Settle.
//
// As long as a process counts no more than its share of the limit, no pick of it is one too many: N processes that each count
// at most a Nth are within the limit together.
func (p *Picker) confirm(ctx context.Context, at *endpoint.Load, limit int64) bool {
	others := int64(p.peers.Others())
	if others == 0 || at.Total()*(others+1) <= limit {
		return true
	}
	wait, cancel := context.WithTimeout(ctx, p.settle)
	defer cancel()
	p.peers.Settle(wait)
	if at.Total() <= limit || !p.peers.First() {
		return at.Total() <= limit
	}
	late, tick := time.NewTimer(p.settle/5), time.NewTicker(time.Millisecond)
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
