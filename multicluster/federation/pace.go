package federation

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/penstock-project/penstock/multicluster/channel"
)

// The cost of a member's updates is a debt, in CPU time, that decreases by share*t in the time t.
// While it exceeds burst, acknowledgements are delayed.
//
// The costs are estimates from the content, because measured durations include waits for other
// members. On an AMD EPYC, decoding a record takes 9 ns per byte, and applying an export 50 us.
// byteCost is doubled for TLS and garbage collection.
const (
	share       = 0.03
	burst       = 300 * time.Millisecond
	followCost  = time.Millisecond
	itemCost    = 2 * time.Microsecond
	byteCost    = 20 * time.Nanosecond
	exportCost  = 50 * time.Microsecond
	problemCost = 100 * time.Millisecond
	longestWait = 5 * time.Second // much less than a lease
)

type paces struct {
	mu        sync.Mutex
	byAddress map[string]*pace
}

type pace struct {
	debt time.Duration
	at   time.Time
}

func (p *paces) spent(member string, cost time.Duration, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.byAddress == nil {
		p.byAddress = map[string]*pace{}
	}
	m := p.byAddress[member]
	if m == nil {
		m = &pace{at: now}
		p.byAddress[member] = m
	}
	m.debt = max(m.debt-time.Duration(float64(now.Sub(m.at))*share), 0) + cost
	m.debt, m.at = min(m.debt, burst+time.Duration(float64(longestWait)*share)), now
	return time.Duration(float64(m.debt-burst) / share)
}

func (p *paces) keep(stays func(address string) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(p.byAddress, func(address string, _ *pace) bool { return !stays(address) })
}

// messageReceived adds the cost of a message to the debt, and returns how long to delay its
// acknowledgement. Invalid keys cost most.
func (f *Federation) messageReceived(member string, in channel.Received) time.Duration {
	cost := time.Duration(in.Items)*itemCost + time.Duration(in.Bytes)*byteCost
	if in.Dropped != nil {
		cost += problemCost
		f.exceeded(member, fmt.Sprintf("%.500v", in.Dropped))
	}
	return f.paces.spent(member, cost, time.Now())
}

type handler = func(context.Context, channel.Update) error

// paced makes the updates of a member take at most share of the CPU time. Each adds the cost least
// to the debt, and a failed one problemCost.
func (f *Federation) paced(least time.Duration, handle handler) handler {
	return func(ctx context.Context, in channel.Update) error {
		err := handle(ctx, in)
		cost := least
		if err != nil {
			cost = max(cost, problemCost)
		}
		if in.Disconnected { // it still waits: a reconnect must not end the debt
			cost = 0
		}
		channel.Pause(ctx, f.paces.spent(in.Peer, cost, time.Now()))
		return err
	}
}

func (f *Federation) noted(handle handler) handler {
	return func(ctx context.Context, in channel.Update) error {
		err := handle(ctx, in)
		if problem := errors.Join(in.Dropped, err); problem != nil && ctx.Err() == nil {
			f.exceeded(in.Peer, fmt.Sprintf("%.500v", problem))
		}
		return err
	}
}
