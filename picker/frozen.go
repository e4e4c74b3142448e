package picker

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/penstock-project/penstock/picker/accesslog"
	"github.com/penstock-project/penstock/picker/endpoint"
	"github.com/penstock-project/penstock/picker/extproc"
	"github.com/penstock-project/penstock/picker/schedule"
)

// A server that freezes before it sends headers delays a stream by at most the server's
// HeadersLimit (endpoint.Load). Then Envoy also tries the pick's next server, and resets the
// request at the server whose headers come later.
//
// An overloaded pool must not get requests twice. So the limit is endpoint.MaxHeadersLimit while
// the next server is suspect or busy, and for stormTime after a storm: several servers that are
// not failing exceed their limits.
const (
	// In a storm, at least 1/stormShare of the pool's servers, and at least two, exceed their
	// limits within stormWindow.
	stormWindow = 10 * time.Second
	stormShare  = 4
	stormTime   = 30 * time.Second
	// A server is busy if it has busyQueue waiting requests, or needs busyReading seconds to read
	// its prompts.
	busyQueue   = 5
	busyReading = 3
)

type storm struct {
	requests atomic.Uint64
	until    atomic.Int64
	mu       sync.Mutex
	last     map[*endpoint.Load]endpoint.Moment
}

func (s *storm) exceeded(at *endpoint.Load, servers int, now endpoint.Moment) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last == nil {
		s.last = map[*endpoint.Load]endpoint.Moment{}
	}
	s.last[at] = now
	for load, last := range s.last {
		if now-last > endpoint.Moment(stormWindow) {
			delete(s.last, load)
		}
	}
	slow := 0
	for load := range s.last {
		if !load.Failing(now) { // a failing server gets one request at a time anyway
			slow++
		}
	}
	if slow >= max(2, servers/stormShare) {
		s.until.Store(int64(now) + int64(stormTime))
	}
}

func (s *storm) raging(now endpoint.Moment) bool {
	until := s.until.Load()
	return until != 0 && int64(now) < until
}

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
	if !k.ranked[0].Trial && (next.Suspect() || k.pool.storm.raging(now) || busy(next, now)) {
		limit = endpoint.MaxHeadersLimit
	}
	a.HeadersLimit = limit
	k.lease.LimitHeaders(limit)
}

func busy(c *schedule.Candidate, now endpoint.Moment) bool {
	var s endpoint.State
	c.Endpoint.ReadState(&s, now)
	return s.Fresh && s.Queue >= busyQueue || s.Backlog(c.Rate) >= busyReading
}

func (p *Picker) exceeds(lease *endpoint.Lease, e accesslog.Entry, passed bool, now time.Time) {
	after := e.Headers - e.Sent
	if passed {
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
