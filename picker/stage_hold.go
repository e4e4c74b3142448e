package picker

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"github.com/penstock-project/penstock/picker/authz"
	"github.com/penstock-project/penstock/picker/extproc"
	"github.com/penstock-project/penstock/picker/flow"
	"github.com/penstock-project/penstock/picker/schedule"
)

// llm-d's header takes precedence over the inference extension's.
const (
	fairnessHeader      = "x-llm-d-inference-fairness-id"
	plainFairnessHeader = "x-gateway-inference-fairness-id"
)

const (
	maxFairnessID = 128
	answerTime    = 5 * time.Second
	maxRetryAfter = time.Minute
)

// hold makes a request wait while its pool is saturated, if the pool has flow control. If the
// pool's configuration changes meanwhile, the pick continues with the new one. hold ends a request
// with 429 if the wait is too long or the queue is full, and with 503 if the pool has no endpoint
// or the client disconnects. Requests with spill targets, and other clusters' requests, do not
// wait. An admitted request counts in the queue until settle.
func hold(k *pick) {
	pool, r := k.pool, k.request
	if !pool.queue.On() {
		return
	}
	now, queue := time.Now(), pool.queue
	if queue.Pass(int(pool.priority(r)), now) {
		k.queue, k.held = queue, flow.Admitted
		return
	}
	q := pool.flowRequest(r, now)
	outcome := queue.Enter(q, now)
	k.entered, k.held = time.Since(now), flow.Canceled
	if outcome == flow.Queued && !k.keptHere() {
		if spill := pool.spill(r.Spill); len(spill) > 0 {
			queue.Remove(q)
			k.decide(listed(spill, retries(r)), resultSpilled)
			return
		}
		if anotherTakes(r) {
			queue.Remove(q)
			k.decide(
				immediate(429, ReasonFull, "the model servers of pool "+quoted(pool.Name)+
					" are busy, and another cluster takes the request"), ReasonFull)
			return
		}
	}
	if outcome == flow.Queued {
		outcome = k.await(queue, q, now)
	} else if outcome != flow.Admitted {
		pool.counters.waited(outcome, q.Priority, 0)
	}
	if k.held = outcome; outcome == flow.Admitted {
		k.queue = queue
		return
	}
	a := k.notAdmitted(queue, q, outcome)
	k.decide(a, a.Reason)
	k.model, k.tokens = r.Facts.Model, r.Facts.Tokens
	k.exceeded = exceeded(queue, q, outcome, k.waited)
}

func (k *pick) await(queue *flow.Queue, q *flow.Request, since time.Time) flow.Outcome {
	wait := queue.Limits().Wait(q.Priority) + answerTime
	if k.pool.processor != nil {
		wait += k.pool.processor.Timeout()
	}
	k.request.Extend(wait)
	outcome := queue.Await(k.ctx, q)
	k.waited = time.Since(since)
	k.pool.counters.waited(outcome, q.Priority, k.waited)
	k.refresh()
	k.started = time.Now() // the measured time of the pick excludes the wait
	return outcome
}

func (k *pick) refresh() {
	if now := k.picker.pool(k.request.Pool); now != nil && now.Relay == nil {
		k.pool, k.target = now, now.target
	}
}

func (k *pick) notAdmitted(queue *flow.Queue, q *flow.Request, outcome flow.Outcome) (a extproc.Answer) {
	switch pool := quoted(k.pool.Name); outcome {
	case flow.NoEndpoints:
		a = immediate(503, ReasonNoEndpoints, "pool "+pool+" has no model server that takes requests")
	case flow.Expired:
		a = immediate(429, ReasonTTL, "the model servers of pool "+pool+
			" were busy for as long as a request may wait, "+queue.Limits().Wait(q.Priority).String())
	case flow.Canceled:
		a = immediate(503, ReasonCanceled, "the request was canceled")
	default:
		a = immediate(429, ReasonQueue, "the model servers of pool "+pool+" are busy, and as many requests wait as may")
	}
	if a.Status == 429 {
		a.RetryAfter = min(max(a.RetryAfter, queue.Delay()), maxRetryAfter)
	}
	return a
}

func held(r *Record) string {
	if r.Waited == 0 {
		return ""
	}
	return fmt.Sprintf("it waited %.3f s while the pool was saturated", r.Waited.Seconds())
}

func exceeded(queue *flow.Queue, q *flow.Request, outcome flow.Outcome, waited time.Duration) (all []schedule.Excess) {
	limits := queue.Limits()
	switch outcome {
	case flow.Rejected:
		if full := q.Full(); full.Requests >= limits.Requests {
			all = append(all,
				schedule.Excess{Limit: "picker.flowControl.maxRequests", Max: float64(limits.Requests),
					Value: float64(full.Requests)})
		} else {
			all = append(all,
				schedule.Excess{Limit: "picker.flowControl.maxBytes", Unit: "bytes", Max: float64(limits.Bytes),
					Value: float64(full.Bytes)})
		}
	case flow.Expired:
		all = append(all,
			schedule.Excess{Limit: "picker.flowControl.ttlSeconds", Unit: "s", Max: limits.Wait(q.Priority).Seconds(),
				Value: waited.Seconds()})
	default:
		return nil
	}
	if room := queue.Room(); room.Saturation >= 1 { // below 1, only sheddable requests wait
		all = append(all, schedule.Excess{Limit: "saturation", Max: 1, Value: room.Saturation})
	}
	return all
}

func (pool *pool) flowRequest(r *extproc.Request, now time.Time) *flow.Request {
	q := &flow.Request{Priority: int(pool.priority(r)), Model: servedModel(&r.Facts),
		Bytes: int64(max(r.Facts.Size, contentLength(r)))}
	id := pool.fairness(r)
	q.Fairness = strings.ToValidUTF8(string(id[:min(len(id), maxFairnessID)]), "\uFFFD")
	if !pool.TrustHeaders {
		return q
	}
	if seconds := milliseconds(r.Headers.Header(ttftHeader),
		milliseconds(r.Headers.Header(plainTTFTHeader), 0)); seconds > 0 {
		q.Deadline = now.Add(time.Duration(seconds * float64(time.Second)))
	}
	return q
}

// caller returns the request's caller as an access policy identified it, or nil. For a member of
// the cluster set, caller returns MEMBER:CALLER, as the peer listener does (translator/envoy,
// peer.lua), if the ClusterSet believes this member. It returns nil for gateways that Penstock does
// not configure, because there the client may have set CallerHeader.
func caller(r *extproc.Request) []byte {
	if r.Member != "" {
		if !r.Vouched {
			return nil
		}
		return stated(r.Member, r.Headers.Header(authz.CallerHeader))
	}
	if !r.Reported() {
		return nil
	}
	return r.Headers.Header(authz.CallerHeader)
}

func stated(member string, id []byte) []byte {
	if !authz.Stated(id) {
		return nil
	}
	return append([]byte(member+":"), id...)
}

// A caller of this cluster has a slash before any colon.
func ofMember(caller []byte) bool {
	i := bytes.IndexAny(caller, ":/")
	return i >= 0 && caller[i] == ':'
}

func (pool *pool) fairness(r *extproc.Request) []byte {
	if id := caller(r); len(id) > 0 {
		return id
	}
	if !pool.TrustHeaders {
		return nil
	}
	for _, name := range [...]string{fairnessHeader, plainFairnessHeader} {
		if id := r.Headers.Header(name); len(id) > 0 {
			return id
		}
	}
	if p := pool.profile(); p != nil {
		for _, name := range p.AgentHeaders {
			if id := r.Headers.Header(name); len(id) > 0 {
				return id
			}
		}
	}
	return nil
}
