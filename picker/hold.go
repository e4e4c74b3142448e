package picker

import (
	"context"
	"strings"
	"time"

	"github.com/penstock-project/penstock/picker/extproc"
	"github.com/penstock-project/penstock/picker/flow"
	"github.com/penstock-project/penstock/picker/schedule"
)

// Headers of a request's fairness ID: llm-d's, and the one of the inference extension. If both are given, llm-d's counts.
const (
	fairnessHeader      = "x-llm-d-inference-fairness-id"
	plainFairnessHeader = "x-gateway-inference-fairness-id"
)

const (
	// maxFairnessID bounds a fairness ID, in bytes. Of a longer one the beginning counts.
	maxFairnessID = 128
	// answerTime is what a pick may take after its request has waited.
	answerTime = 5 * time.Second
	// maxRetryAfter bounds what a client that finds the queue full is asked to wait.
	maxRetryAfter = time.Minute
)

// control gives a pool its queue, if it has flow control. Requests that wait in old's stay there.
func (p *Picker) control(next, old *pool) {
	if next.FlowControl == nil || next.Relay != nil {
		return
	}
	measure := func(now time.Time) flow.Room {
		room := next.FlowControl.Measure(next.snapshot.Endpoints, now)
		if room.Requests <= 0 || room.Sheddable <= 0 {
			next.snapshot.ReadSoon()
		}
		room.Others, room.First = p.peers.Others(), p.peers.First()
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

// hold has a request wait while its pool is saturated. It returns the pool's configuration after that; and true with an answer if the
// request is not picked for. A request with spill targets does not wait: it is spilled. An admitted one is placed at the end of its pick.
func (p *Picker) hold(ctx context.Context, pool *pool, r *extproc.Request, d *decision) (*pool, extproc.Answer, bool) {
	now, queue := time.Now(), pool.queue
	if queue.Pass(int(pool.priority(r)), now) {
		d.admitted = queue
		return pool, extproc.Answer{}, false
	}
	q := pool.flowRequest(r, now)
	outcome := queue.Enter(q, now)
	if outcome == flow.Queued {
		if spill := pool.spill(r.Spill); len(spill) > 0 {
			queue.Remove(q)
			d.result = resultSpilled
			return pool, listed(spill, retries(r)), true
		}
		wait := queue.Limits().TTL + answerTime
		if pool.processor != nil {
			wait += pool.processor.Timeout()
		}
		r.Extend(wait)
		outcome = queue.Await(ctx, q)
		d.waited = time.Since(now)
		pool.counters.waited(outcome, q.Priority, d.waited)
		if changed := p.pool(r.Pool); changed != nil && changed.Relay == nil {
			pool = changed
		}
	} else if outcome != flow.Admitted {
		pool.counters.waited(outcome, q.Priority, 0)
	}
	var a extproc.Answer
	switch outcome {
	case flow.Admitted:
		d.admitted = queue
		return pool, a, false
	case flow.NoEndpoints:
		a = immediate(503, ReasonNoEndpoints, "pool "+quoted(pool.Name)+" has no model server that takes requests")
	case flow.Expired:
		a = immediate(429, ReasonTTL, "the model servers of pool "+quoted(pool.Name)+" were busy for as long as a request may wait, "+queue.Limits().TTL.String())
	case flow.Canceled:
		a = immediate(503, ReasonCanceled, "the request was canceled")
	default:
		a = immediate(429, ReasonQueue, "the model servers of pool "+quoted(pool.Name)+" are busy, and as many requests wait as may")
	}
	if a.Status == 429 {
		a.RetryAfter = min(max(a.RetryAfter, queue.Delay()), maxRetryAfter)
	}
	d.result, d.model, d.tokens = a.Reason, r.Facts.Model, r.Facts.Tokens
	d.exceeded = exceeded(queue, q, outcome, d.waited)
	return pool, a, true
}

// exceeded returns the limits of flow control because of which a request is answered 429.
func exceeded(queue *flow.Queue, q *flow.Request, outcome flow.Outcome, waited time.Duration) (all []schedule.Excess) {
	limits := queue.Limits()
	switch outcome {
	case flow.Rejected:
		if full := q.Full(); full.Requests >= limits.Requests {
			all = append(all, schedule.Excess{Limit: "picker.flowControl.maxRequests", Max: float64(limits.Requests), Value: float64(full.Requests)})
		} else {
			all = append(all, schedule.Excess{Limit: "picker.flowControl.maxBytes", Unit: "bytes", Max: float64(limits.Bytes), Value: float64(full.Bytes)})
		}
	case flow.Expired:
		all = append(all, schedule.Excess{Limit: "picker.flowControl.ttlSeconds", Unit: "s", Max: limits.TTL.Seconds(), Value: waited.Seconds()})
	default:
		return nil
	}
	if room := queue.Room(); room.Saturation >= 1 { // sheddable requests wait below that, too
		all = append(all, schedule.Excess{Limit: "saturation", Max: 1, Value: room.Saturation})
	}
	return all
}

// flowRequest is what decides how long a request waits.
func (pool *pool) flowRequest(r *extproc.Request, now time.Time) *flow.Request {
	q := &flow.Request{Priority: int(pool.priority(r)), Bytes: int64(max(r.Facts.Size, length(r.Headers.Header("content-length"))))}
	if !pool.TrustHeaders {
		return q
	}
	id := pool.fairness(r)
	q.Fairness = strings.ToValidUTF8(string(id[:min(len(id), maxFairnessID)]), "\uFFFD")
	if seconds := milliseconds(r.Headers.Header(ttftHeader), milliseconds(r.Headers.Header(plainTTFTHeader), 0)); seconds > 0 {
		q.Deadline = now.Add(time.Duration(seconds * float64(time.Second)))
	}
	return q
}

// fairness is the fairness ID that a request names, if the pool trusts headers; else it has none.
func (pool *pool) fairness(r *extproc.Request) []byte {
	if !pool.TrustHeaders {
		return nil
	}
	if id := r.Headers.Header(fairnessHeader); len(id) > 0 {
		return id
	}
	return r.Headers.Header(plainFairnessHeader)
}
