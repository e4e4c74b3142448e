package picker

import (
	"time"

	"github.com/penstock-project/penstock/picker/flow"
	"github.com/penstock-project/penstock/picker/prefix"
	"github.com/penstock-project/penstock/picker/schedule"
)

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

func (pool *pool) queued(now time.Time) schedule.Queued {
	q := pool.queue.Ahead(int(priorityFor(pool.Criticality)), now)
	processes := 1 + pool.queue.Room().Others
	return schedule.Queued{
		Requests: q.Requests * processes,
		Tokens:   int(q.Bytes) / prefix.BytesPerToken * processes,
		Oldest:   q.Oldest,
	}
}

func (pool *pool) letGo(now *pool) {
	room := flow.Room{}
	if now != nil {
		room = flow.Room{Endpoints: 1, Requests: 1 << 20, Sheddable: 1 << 20}
	}
	pool.queue.Set(flow.Limits{EmptyTTL: time.Nanosecond}, func(time.Time) flow.Room { return room })
}
