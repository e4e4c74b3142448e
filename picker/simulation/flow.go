package simulation

import (
	"time"

	"github.com/penstock-project/penstock/picker/flow"
)

// FlowControl makes each picker queue requests (package flow) while the pool is saturated. Only the
// strategies of Production support it.
type FlowControl struct {
	flow.Limits
	flow.Saturation
}

type holder interface {
	Room(now time.Duration, s flow.Saturation) flow.Room
}

func (d *production) Room(now time.Duration, s flow.Saturation) flow.Room {
	return s.Measure(d.snapshot.Endpoints, epoch.Add(now))
}

// flowInterval is the time between two attempts to admit queued requests, as in package flow.
const flowInterval = 5 * time.Millisecond

type gate struct {
	run     *run
	queue   *flow.Queue
	waiting []held
	ticking bool
}

type held struct {
	number  int
	request *flow.Request
}

func newGate(r *run, by int) *gate {
	measure := func(now time.Time) flow.Room {
		room := r.policies[by].(holder).Room(now.Sub(epoch), r.Flow.Saturation)
		room.Others, room.First = r.Pickers-1, by == 0
		return room
	}
	return &gate{run: r, queue: flow.New(r.Flow.Limits, measure, epoch)}
}

func (g *gate) enter(i int, q *Request) {
	r := g.run
	h := held{i, &flow.Request{Priority: q.Priority, Fairness: q.Fairness}}
	switch g.queue.Enter(h.request, epoch.Add(r.clock.now)) {
	case flow.Admitted:
		r.choose(i, q)
		g.queue.Placed()
	case flow.Queued:
		g.waiting = append(g.waiting, h)
		g.tick()
	default:
		r.shed(i)
	}
	g.settle() // Enter may have admitted or rejected other requests
}

func (g *gate) tick() {
	if g.ticking {
		return
	}
	g.ticking = true
	g.run.clock.at(g.run.clock.now+flowInterval, func() {
		g.ticking = false
		g.queue.Admit(epoch.Add(g.run.clock.now))
		if g.settle(); len(g.waiting) > 0 {
			g.tick()
		}
	})
}

func (g *gate) settle() {
	r := g.run
	kept, all := g.waiting[:0], g.waiting
	for _, h := range all {
		q := &r.Workload.Requests[h.number]
		switch outcome := g.queue.Outcome(h.request); {
		case outcome == flow.Admitted:
			r.choose(h.number, q)
			g.queue.Placed()
		case outcome != flow.Queued:
			r.shed(h.number)
		case r.clock.now-q.At >= g.queue.Limits().TTL:
			g.queue.Remove(h.request)
			r.shed(h.number)
		default:
			kept = append(kept, h)
		}
	}
	g.waiting = kept
}
