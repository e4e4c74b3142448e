package picker

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/penstock-project/penstock/picker/accesslog"
	"github.com/penstock-project/penstock/picker/endpoint"
	"github.com/penstock-project/penstock/picker/extproc"
)

// A server that freezes before it has sent headers costs a stream as long as its headers may take
// there (endpoint.Load.HeadersLimit). Then Envoy asks the next server of the pick beside it, and
// the first that sends headers serves: Envoy resets the other one. So no request fails by the
// limit, not even if both are only slow, and none runs on two servers once there are headers.
//
// A pool beyond its capacity is slow as a whole. So that it is not asked twice, the limit is the
// longest one while the next server is suspect or has a queue, and for stormTime after several
// servers that are not suspect have exceeded theirs. The one request that shows whether a suspect
// server works keeps its limit.
const (
	// stormWindow is how close to each other timeouts of several servers are, and stormShare which
	// share of the pool's servers that is, at least two.
	stormWindow = 10 * time.Second
	stormShare  = 4
	stormTime   = 30 * time.Second
	// busyQueue requests wait at a server that takes no more (as for flow control by default), or
	// it reads for busyReading seconds what it was sent.
	busyQueue   = 5
	busyReading = 3
)

// storm counts a pool's servers that exceed their limits.
type storm struct {
	requests atomic.Uint64 // that have gone to another server
	until    atomic.Int64  // a moment: the longest limit before; 0: there was none
	mu       sync.Mutex
	last     map[*endpoint.Load]endpoint.Moment
}

// exceeded counts a server that has sent no headers in time. servers is how many the pool has.
func (s *storm) exceeded(at *endpoint.Load, servers int, now endpoint.Moment) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last == nil {
		s.last = map[*endpoint.Load]endpoint.Moment{}
	}
	s.last[at] = now
	for of, last := range s.last {
		if now-last > endpoint.Moment(stormWindow) {
			delete(s.last, of)
		}
	}
	slow := 0
	for of := range s.last {
		if !of.Failing(now) { // else it gets single requests
			slow++
		}
	}
	if slow >= max(2, servers/stormShare) {
		s.until.Store(int64(now) + int64(stormTime))
	}
}

// raging reports whether the pool is slow as a whole.
func (s *storm) raging(now endpoint.Moment) bool {
	until := s.until.Load()
	return until != 0 && int64(now) < until
}

// limitHeaders gives a stream the time in which its first server sends headers.
func (k *pick) limitHeaders(a *extproc.Answer) {
	if k.pool.NoHeadersLimit || !k.query.Stream || !k.request.Reported() || k.request.Fixed || len(k.ranked) < 2 {
		return
	}
	now := endpoint.At(k.at)
	limit := k.ranked[0].Endpoint.Load().HeadersLimit(k.query.Tokens)
	if limit == 0 {
		return
	}
	next := &k.ranked[1]
	if !k.ranked[0].Trial && (next.Suspect() || k.pool.storm.raging(now) || busy(next.Endpoint, now)) {
		limit = endpoint.MaxHeadersLimit
	}
	a.HeadersLimit = limit
	k.lease.LimitHeaders(limit)
}

// busy reports whether a server has no room for a request that another one has.
func busy(e *endpoint.Endpoint, now endpoint.Moment) bool {
	var s endpoint.State
	e.ReadState(&s, now)
	return s.Fresh && s.Queue >= busyQueue || s.Reading >= busyReading
}

// exceeds counts the server that was picked if it has exceeded its limit, by an entry of the access
// log. passed means that another one has answered.
func (p *Picker) exceeds(lease *endpoint.Lease, e accesslog.Entry, passed bool, now time.Time) {
	after := e.Headers - e.Sent
	if passed { // Sent is of the other one
		after = e.Headers
	}
	if e.Headers == 0 || !lease.Exceeds(after, passed) {
		return
	}
	if passed {
		lease.Picked().RecordFailed("no headers in time", now)
	}
	if pool := p.pools.now.Load().byName[lease.Holder().Pool]; pool != nil {
		pool.storm.exceeded(lease.Picked(), len(pool.Endpoints), endpoint.At(now))
		if passed {
			pool.storm.requests.Add(1)
		}
	}
}
