package picker

import (
	"time"

	"github.com/penstock-project/penstock/picker/flow"
)

// control gives a pool its queue, if it has flow control. Requests that wait in old's stay there.
func (p *Picker) control(next, old *pool) {
	if next.FlowControl == nil || next.Relay != nil || next.Clusters != nil || next.Gateways {
		return
	}
	measure := func(now time.Time) flow.Room {
		begin := time.Now()
		room := next.FlowControl.Measure(next.snapshot.Endpoints, now)
		p.metrics.upstream.measured(time.Since(begin))
		if room.Requests <= 0 || room.Sheddable <= 0 {
			next.snapshot.ReadSoon()
		}
		room.Others, room.First = p.config.Peers.Order()
		return room
	}
	if old != nil && old.queue != nil {
		next.queue = old.queue
		next.queue.Set(next.FlowControl.Limits, measure)
		return
	}
	next.queue = flow.New(next.FlowControl.Limits, measure, time.Now())
}

// letGo ends the wait of a pool's requests: flow control is off, or the pool is gone.
func (pool *pool) letGo(now *pool) {
	room := flow.Room{}
	if now != nil {
		room = flow.Room{Endpoints: 1, Requests: 1 << 20, Sheddable: 1 << 20}
	}
	pool.queue.Set(flow.Limits{EmptyTTL: time.Nanosecond}, func(time.Time) flow.Room { return room })
}
