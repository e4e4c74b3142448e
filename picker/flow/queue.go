package flow

import (
	"cmp"
	"context"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Defaults of Limits, as in llm-d.
const (
	DefaultRequests = 5000
	DefaultBytes    = 1_000_000_000
	DefaultTTL      = time.Minute
	DefaultEmptyTTL = 10 * time.Second
)

const (
	// maxFlows bounds the flows of a Queue. In each band, further fairness IDs share one flow.
	maxFlows = 1000
	// maxBands bounds the bands of a Queue. Further priorities use the lowest band.
	maxBands      = 64
	interval      = 5 * time.Millisecond
	emptyInterval = 100 * time.Millisecond
	// lag is the assumed time until other processes count a request that this process placed.
	lag = 64 * time.Millisecond
)

// Order determines which request of a flow goes first.
type Order string

// FCFS orders requests by arrival. Deadline orders them by Request.Deadline, then those without
// one.
const (
	FCFS     Order = "FCFS"
	Deadline Order = "Deadline"
)

// Limits configures a Queue. Zero values mean the defaults.
type Limits struct {
	Requests int // maximum in each band
	Bytes    int64
	TTL      time.Duration // maximum wait
	TTLs     []BandTTL     // for some priorities, instead of TTL
	EmptyTTL time.Duration // maximum wait while the pool has no endpoint
	Order    Order
}

// BandTTL is the maximum wait of the requests of one priority. With Negative, it applies to all
// priorities below 0 without their own BandTTL, and Priority has no effect.
type BandTTL struct {
	Priority int
	Negative bool
	TTL      time.Duration
}

// Wait returns the maximum wait of a request of this priority.
func (l Limits) Wait(priority int) time.Duration {
	wait := l.TTL
	for _, b := range l.TTLs {
		switch {
		case !b.Negative && b.Priority == priority:
			return b.TTL
		case b.Negative && priority < 0:
			wait = b.TTL
		}
	}
	return wait
}

func (l Limits) withDefaults() Limits {
	l.Requests, l.Bytes = cmp.Or(l.Requests, DefaultRequests), cmp.Or(l.Bytes, DefaultBytes)
	l.TTL, l.EmptyTTL = cmp.Or(l.TTL, DefaultTTL), cmp.Or(l.EmptyTTL, DefaultEmptyTTL)
	l.Order = cmp.Or(l.Order, FCFS)
	return l
}

// Room measures how many further requests a pool accepts.
type Room struct {
	Endpoints int
	// Requests is the number of further requests that the pool accepts. At most Sheddable of them
	// may have a priority below 0.
	Requests, Sheddable int
	// Saturation is at least 1 if the pool is saturated.
	Saturation float64
	// Others counts the other processes that admit requests to the same servers. First means that
	// this process is the first of all. All processes agree on the order.
	Others int
	First  bool
}

// Request is a request that waits for admission.
type Request struct {
	Priority int // higher goes first; below 0 is sheddable
	Fairness string
	Bytes    int64
	Deadline time.Time // zero for none
	Model    string

	full    Waiting
	state   Outcome // guarded by Queue.mu
	result  chan struct{}
	arrived time.Time
	number  uint64
	band    *band
	flow    *flow
	index   int
}

// Outcome is the result of a request's admission.
type Outcome int

// All outcomes except Queued are final.
const (
	Queued   Outcome = iota
	Admitted         // the caller may now choose an endpoint
	Rejected
	Expired
	NoEndpoints // waited for EmptyTTL without an endpoint in the pool
	Canceled
)

var outcomes = [...]string{"queued", "admitted", "rejected", "expired", "no_endpoints", "canceled"}

// String returns the outcome's name in metrics.
func (o Outcome) String() string { return outcomes[o] }

// Queue holds the waiting requests of one pool.
type Queue struct {
	waiting   atomic.Int64
	room      atomic.Int64 // until the next measurement
	sheddable atomic.Int64 // part of room for sheddable requests
	measured  atomic.Int64
	admitted  atomic.Int64
	placed    atomic.Int64
	settings  atomic.Pointer[settings]
	last      atomic.Pointer[Room]
	begin     time.Time // time of New; its monotonic clock makes measured immune to clock changes

	mu      sync.Mutex
	bands   []*band // non-empty, highest priority first
	flows   int
	number  uint64
	pumping bool
	delay   time.Duration
	emptyAt time.Time
	granted mix
	usual   mix   // of the last seconds
	counted int64 // value of placed at the last update of lately
	lately  [2]struct {
		window int64 // number of the time window, of length lag
		placed int
	}
}

type settings struct {
	Limits
	measure func(now time.Time) Room
}

// New returns an empty Queue. measure returns the pool's current Room. It must not block, because
// the Queue is locked meanwhile.
func New(l Limits, measure func(now time.Time) Room, now time.Time) *Queue {
	q := &Queue{begin: now}
	q.measured.Store(-int64(interval))
	q.Set(l, measure)
	return q
}

// Set replaces the limits and measure. Waiting requests continue to wait.
func (q *Queue) Set(l Limits, measure func(now time.Time) Room) {
	q.settings.Store(&settings{l.withDefaults(), measure})
}

// Limits returns the current limits.
func (q *Queue) Limits() Limits { return q.settings.Load().Limits }

// On reports whether the pool has flow control. Without flow control, q is nil.
func (q *Queue) On() bool { return q != nil }

// Pass admits a request without a lock if no request waits and there is room. After false, the
// caller must call Enter.
func (q *Queue) Pass(priority int, now time.Time) bool {
	if q.waiting.Load() > 0 || q.due(now) {
		return false
	}
	q.admitted.Add(1) // before take: a concurrent measurement then counts the request
	if !q.take(priority) {
		q.admitted.Add(-1)
		return false
	}
	return true
}

// Enter admits a request, queues it, or rejects it.
func (q *Queue) Enter(r *Request, now time.Time) Outcome {
	if q.Pass(r.Priority, now) {
		r.state = Admitted
		return Admitted
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	s := q.settings.Load()
	r.arrived, r.state, r.result = now, Queued, make(chan struct{}, 1)
	if s.Order == FCFS {
		r.Deadline = time.Time{}
	}
	b := q.band(r.Priority)
	if (len(b.all) >= s.Requests || b.bytes+r.Bytes > s.Bytes) && !q.makePlace(b, r, s) {
		r.state, r.full = Rejected, b.waiting(r)
		q.drop(b)
		if last := q.last.Load(); last != nil && last.Endpoints == 0 {
			r.state = NoEndpoints
		}
		return r.state
	}
	q.number++
	r.number = q.number
	q.add(b, r)
	q.admit(now)
	return r.state
}

// Await blocks until a queued request has a final outcome.
func (q *Queue) Await(ctx context.Context, r *Request) Outcome {
	s := q.settings.Load()
	q.pump()
	over := time.NewTimer(s.Wait(r.Priority) - time.Since(r.arrived))
	defer over.Stop()
	end := Canceled
	select {
	case <-r.result:
	case <-ctx.Done():
	case <-over.C:
		if end = Expired; q.Room().Endpoints == 0 {
			end = NoEndpoints
		}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.finish(r, end)
	return r.state
}

// Placed records that an admitted request counts in measurements, because it has a lease, or that
// it will not be sent. The caller calls Placed once for each admitted request.
func (q *Queue) Placed() { q.placed.Add(1) }

// Unplaced counts the admitted requests without a call of Placed.
func (q *Queue) Unplaced() int { return int(q.admitted.Load() - q.placed.Load()) }

// Remove removes a request that Enter has queued and that the caller will not send.
func (q *Queue) Remove(r *Request) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if r.state == Admitted { // a concurrent Admit has admitted it
		q.Placed()
		return
	}
	q.finish(r, Canceled)
}

// Admit admits the requests that have room, and returns how many still wait.
func (q *Queue) Admit(now time.Time) (waiting int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.admit(now)
	return int(q.waiting.Load())
}

// Room returns the last measurement.
func (q *Queue) Room() Room {
	if last := q.last.Load(); last != nil {
		return *last
	}
	return Room{}
}

// Delay returns how long the request that was last admitted from the queue had waited.
func (q *Queue) Delay() time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.delay
}

// Band describes the waiting requests of one priority.
type Band struct {
	Priority int       `json:"priority"`
	Requests int       `json:"requests"`
	Flows    int       `json:"flows"`
	Bytes    int64     `json:"bytes"` // of the requests' bodies
	Oldest   time.Time `json:"oldest"`
}

// Bands returns the waiting requests of each priority, highest first.
func (q *Queue) Bands() []Band {
	q.mu.Lock()
	defer q.mu.Unlock()
	out := make([]Band, 0, len(q.bands))
	for _, b := range q.bands {
		shown := Band{Priority: b.priority, Requests: len(b.all), Flows: len(b.byID), Bytes: b.bytes}
		for r := range b.all {
			if shown.Oldest.IsZero() || r.arrived.Before(shown.Oldest) {
				shown.Oldest = r.arrived
			}
		}
		out = append(out, shown)
	}
	return out
}

// Ahead describes the waiting requests that precede a new one.
type Ahead struct {
	Requests int
	Bytes    int64
	Oldest   time.Duration
}

// Ahead describes the waiting requests of this priority or higher ones.
func (q *Queue) Ahead(priority int, now time.Time) (a Ahead) {
	if q.waiting.Load() == 0 {
		return a
	}
	for _, b := range q.Bands() {
		if b.Priority >= priority {
			a.Requests, a.Bytes, a.Oldest = a.Requests+b.Requests, a.Bytes+b.Bytes, max(a.Oldest, now.Sub(b.Oldest))
		}
	}
	return a
}

// Each calls f for each waiting request. f must not call the Queue.
func (q *Queue) Each(f func(*Request)) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, b := range q.bands {
		for r := range b.all {
			f(r)
		}
	}
}

func (q *Queue) due(now time.Time) bool {
	return int64(now.Sub(q.begin))-q.measured.Load() >= int64(interval)
}

func (q *Queue) take(priority int) bool {
	if priority < 0 && q.sheddable.Add(-1) < 0 || q.room.Add(-1) < 0 {
		return false
	}
	return true
}

// The caller holds q.mu.
func (q *Queue) admit(now time.Time) {
	if q.due(now) {
		q.measure(now)
	}
	for len(q.bands) > 0 {
		b := q.bands[0]
		if !q.take(b.priority) {
			return // lower bands have no room, either
		}
		r := b.next()
		q.delay = now.Sub(r.arrived)
		q.finish(r, Admitted)
		b.turn(r.flow)
	}
}

// measure measures the pool's room, and sets this process's part of it. The caller holds q.mu.
func (q *Queue) measure(now time.Time) {
	s := q.settings.Load()
	at := int64(now.Sub(q.begin))
	placed := q.placed.Load() // before measure: a request placed in between may count twice, but never zero times
	m := s.measure(now)
	q.roll(at)
	taken := mix{q.granted.all - float64(max(q.room.Load(), 0)),
		q.granted.sheddable - float64(max(q.sheddable.Load(), 0))}
	q.lately[0].placed += int(placed - q.counted)
	q.counted = placed
	q.usual.add(taken, time.Duration(at-q.measured.Load()))
	unplaced := int(q.admitted.Load() - placed)
	room, sheddable := q.share(m.Requests, unplaced, &m),
		q.share(m.Sheddable-q.usual.reserve(m.Endpoints), unplaced, &m)
	q.measured.Store(at)
	q.sheddable.Store(int64(sheddable))
	q.room.Store(int64(room))
	q.granted = mix{float64(max(room, 0)), float64(max(sheddable, 0))}
	q.last.Store(&m)
	if m.Endpoints == 0 && now.Sub(q.emptyAt) >= emptyInterval {
		q.emptyAt = now
		q.expireEmpty(s, now)
	}
}

type mix struct{ all, sheddable float64 }

const usualTime = 5 * time.Second

func (m *mix) add(taken mix, after time.Duration) {
	kept := math.Exp(-after.Seconds() / usualTime.Seconds())
	m.all, m.sheddable = m.all*kept+taken.all, m.sheddable*kept+taken.sheddable
}

// reserve returns the number of servers to keep free of sheddable prompts, up to half. A server
// reads one prompt at a time, so a more important request would wait for a sheddable one.
func (m *mix) reserve(servers int) int {
	if m.all <= 0 {
		return 0
	}
	return int(min(1-m.sheddable/m.all, 0.5) * float64(servers))
}

// share returns how many of n further requests this process may admit. It assumes that each other
// process has as many unplaced and recently placed requests as this one.
func (q *Queue) share(n, unplaced int, m *Room) int {
	if n -= unplaced; m.Others == 0 || n <= 0 {
		return n
	}
	n -= m.Others * (unplaced + q.lately[0].placed + q.lately[1].placed)
	if n <= 0 {
		return 0
	}
	part := n / (m.Others + 1)
	if m.First {
		part += n % (m.Others + 1)
	}
	return part
}

func (q *Queue) roll(at int64) {
	window := at / int64(lag)
	switch window - q.lately[0].window {
	case 0:
		return
	case 1:
		q.lately[1] = q.lately[0]
	default:
		q.lately[1].placed = 0
	}
	q.lately[0].window, q.lately[0].placed = window, 0
}

// expireEmpty ends the requests that have waited for EmptyTTL while the pool has no endpoint. The
// caller holds q.mu.
func (q *Queue) expireEmpty(s *settings, now time.Time) {
	var over []*Request
	for _, b := range q.bands {
		for r := range b.all {
			if now.Sub(r.arrived) >= s.EmptyTTL {
				over = append(over, r)
			}
		}
	}
	for _, r := range over {
		q.finish(r, NoEndpoints)
	}
}

// finish gives a queued request its final outcome, and removes it from the queue. It has no effect
// on other requests. The caller holds q.mu.
func (q *Queue) finish(r *Request, o Outcome) {
	if r.state != Queued {
		return
	}
	if r.state = o; o == Admitted {
		q.admitted.Add(1)
	}
	b, f := r.band, r.flow
	f.remove(r)
	b.bytes -= r.Bytes
	delete(b.all, r)
	q.waiting.Add(-1)
	if len(f.requests) == 0 {
		b.order.Remove(f.at)
		delete(b.byID, f.id)
		q.flows--
	}
	q.drop(b)
	r.result <- struct{}{}
}

func (q *Queue) pump() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.pumping || q.waiting.Load() == 0 {
		return
	}
	q.pumping = true
	go func() {
		tick := time.NewTicker(interval)
		defer tick.Stop()
		for now := range tick.C {
			q.mu.Lock()
			q.admit(now)
			if q.waiting.Load() == 0 {
				q.pumping = false
				q.mu.Unlock()
				return
			}
			q.mu.Unlock()
		}
	}()
}

// band adds a missing band. The caller holds q.mu.
func (q *Queue) band(priority int) *band {
	i, ok := slices.BinarySearchFunc(q.bands, priority, func(b *band, p int) int { return cmp.Compare(p, b.priority) })
	switch {
	case ok:
		return q.bands[i]
	case len(q.bands) >= maxBands:
		return q.bands[len(q.bands)-1]
	}
	b := newBand(priority)
	q.bands = slices.Insert(q.bands, i, b)
	return b
}

// drop removes an empty band. The caller holds q.mu.
func (q *Queue) drop(b *band) {
	if len(b.all) > 0 {
		return
	}
	if i := slices.Index(q.bands, b); i >= 0 {
		q.bands = slices.Delete(q.bands, i, i+1)
	}
}

// The caller holds q.mu.
func (q *Queue) add(b *band, r *Request) {
	f := b.byID[r.Fairness]
	if f == nil {
		id := r.Fairness
		if q.flows >= maxFlows {
			id = sharedID
		}
		if f = b.byID[id]; f == nil {
			f = &flow{id: id}
			f.at = b.order.PushBack(f)
			b.byID[id] = f
			q.flows++
		}
	}
	r.band, r.flow = b, f
	f.add(r)
	b.all[r] = struct{}{}
	b.bytes += r.Bytes
	q.waiting.Add(1)
}

// makePlace rejects the last request of the full band's longest flow, to make room for r. It
// returns false, and rejects nothing, if r's own flow is about as long, or if r needs more room.
// The caller holds q.mu.
func (q *Queue) makePlace(b *band, r *Request, s *settings) bool {
	longest := b.longest()
	if longest == nil || longest.id == r.Fairness {
		return false
	}
	if own := b.byID[r.Fairness]; own != nil && len(own.requests)+1 >= len(longest.requests) {
		return false
	}
	last := longest.requests[len(longest.requests)-1]
	if len(longest.requests) < 2 || b.bytes-last.Bytes+r.Bytes > s.Bytes {
		return false
	}
	last.full = b.waiting(r)
	q.finish(last, Rejected)
	return true
}

// Outcome returns the current outcome of a request that Enter got.
func (q *Queue) Outcome(r *Request) Outcome {
	q.mu.Lock()
	defer q.mu.Unlock()
	return r.state
}
