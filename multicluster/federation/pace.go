package federation

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/penstock-project/penstock/multicluster/channel"
)

// What updates of a member cost is a debt that decreases by share of the time. Up to burst an update is acknowledged at once; above it, the
// acknowledgement waits, and with it the member's next update, which then has all that the member has published meanwhile.
const (
	share     = 0.25
	burst     = 2 * time.Second
	leastCost = 5 * time.Millisecond
	// problemCost is that of an update that has a problem: each one is reported.
	problemCost = 500 * time.Millisecond
	longestWait = 5 * time.Second // well within a lease
)

// paces are the debts of members, by address.
type paces struct {
	mu sync.Mutex
	of map[string]*pace
}

type pace struct {
	debt time.Duration
	at   time.Time
}

// spent adds what an update has cost, and returns how long its acknowledgement waits.
func (p *paces) spent(member string, cost time.Duration, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.of == nil {
		p.of = map[string]*pace{}
	}
	is := p.of[member]
	if is == nil {
		is = &pace{at: now}
		p.of[member] = is
	}
	is.debt = max(is.debt-time.Duration(float64(now.Sub(is.at))*share), 0) + cost
	is.debt, is.at = min(is.debt, burst+time.Duration(float64(longestWait)*share)), now
	return time.Duration(float64(is.debt-burst) / share)
}

// keep forgets members at other addresses.
func (p *paces) keep(is func(address string) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for address := range p.of {
		if !is(address) {
			delete(p.of, address)
		}
	}
}

// paced is a handler of updates that no member calls all the time. One that is disconnected waits too: it would connect again at once.
func (f *Federation) paced(handle func(context.Context, channel.Update) error) func(context.Context, channel.Update) error {
	return func(ctx context.Context, in channel.Update) error {
		began := time.Now()
		err := handle(ctx, in)
		cost := max(time.Since(began), leastCost)
		if err != nil {
			cost = max(cost, problemCost)
		}
		if in.Disconnected {
			cost = 0
		}
		if wait := f.paces.spent(in.Peer, cost, time.Now()); wait > 0 {
			timer := time.NewTimer(wait)
			defer timer.Stop()
			select {
			case <-ctx.Done():
			case <-timer.C:
			}
		}
		return err
	}
}

// noted passes on what of a member's update had no effect. receive does so itself.
func (f *Federation) noted(
	handle func(context.Context, channel.Update) error,
) func(context.Context, channel.Update) error {
	return func(ctx context.Context, in channel.Update) error {
		err := handle(ctx, in)
		if err != nil && ctx.Err() == nil {
			f.exceeded(in.Peer, fmt.Sprintf("%.500v", err))
		}
		return err
	}
}
