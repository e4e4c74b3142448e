package federation

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/penstock-project/penstock/multicluster/channel"
)

// The cost of a member's updates is a debt that decreases by share of the time. Up to burst a
// message is acknowledged at once. Above it the acknowledgement waits, and with it the member's
// next message. The member's next update then has everything that it has published meanwhile. A
// burst is room for the snapshot of 5,000 pools with 10 endpoints each.
//
// The costs are estimates. An update costs by its content and not by the time that it takes here,
// which includes waits for other members. Measured as CPU time on an AMD EPYC:
//
//   - a message takes 0.4 us an item, and 1.4 ns a byte, to decode, without TLS and HTTP/2;
//   - a record takes 2.2 us, and 9 ns a byte, to decode;
//   - an export takes 17 us to apply and to assemble, and 50 us in a process that also decodes,
//     reports and records it;
//   - an update that changes one endpoint takes 0.8 ms in all.
//
// byteCost is twice as high, because TLS and garbage collection come on top.
const (
	share = 0.03
	burst = 300 * time.Millisecond
	// followCost is for an update that may lead to another translation.
	followCost = time.Millisecond
	// itemCost is for an item of a message, beside its bytes.
	itemCost = 2 * time.Microsecond
	// byteCost is for a byte on the wire: decoding it, and the garbage that this makes.
	byteCost = 20 * time.Nanosecond
	// exportCost is for an export that is applied or withdrawn.
	exportCost = 50 * time.Microsecond
	// problemCost is for an update with a problem: each one is reported.
	problemCost = 100 * time.Millisecond
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

// messageReceived is channel.Config.Received: an update costs what its messages do, and more once
// it is whole. So the parts of a large update are read one at a time. A part with invalid keys is
// reported at once, and the next part of a member that sends many such parts waits longest.
func (f *Federation) messageReceived(member string, in channel.Received) time.Duration {
	cost := time.Duration(in.Items)*itemCost + time.Duration(in.Bytes)*byteCost
	if in.Dropped != nil {
		cost += problemCost
		f.exceeded(member, fmt.Sprintf("%.500v", in.Dropped))
	}
	return f.paces.spent(member, cost, time.Now())
}

// paced returns a handler that limits the share of time which the updates of one member take. least
// is the cost of an update beside its messages and exports.
func (f *Federation) paced(
	least time.Duration, handle func(context.Context, channel.Update) error,
) func(context.Context, channel.Update) error {
	return func(ctx context.Context, in channel.Update) error {
		err := handle(ctx, in)
		cost := least
		if err != nil {
			cost = max(cost, problemCost)
		}
		if in.Disconnected { // it waits too: the member would connect again at once
			cost = 0
		}
		channel.Pause(ctx, f.paces.spent(in.Peer, cost, time.Now()))
		return err
	}
}

// noted passes on what of a member's update had no effect. receive does so itself.
func (f *Federation) noted(
	handle func(context.Context, channel.Update) error,
) func(context.Context, channel.Update) error {
	return func(ctx context.Context, in channel.Update) error {
		err := handle(ctx, in)
		if problem := errors.Join(in.Dropped, err); problem != nil && ctx.Err() == nil {
			f.exceeded(in.Peer, fmt.Sprintf("%.500v", problem))
		}
		return err
	}
}
