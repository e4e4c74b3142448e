package endpoint

import (
	"cmp"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// An engine that hangs behind a healthy API server accepts requests and sends headers but no
// tokens. A server is silent, and so suspect, when requests wait far longer than predicted for
// their first token while the server shows no progress: no body byte of any request, and no change
// of the token counters on its page. Without counters, a response that is not streamed shows no
// progress until its end. Then only the predicted total time of this response counts; streams that
// wait at the same server show nothing.
const (
	// beyond is the factor by which a wait must exceed the predicted time.
	beyond = 4
	// leastBlind is the minimum wait if no page has counters: streams report their bytes only every
	// 2 s.
	leastWait, leastBlind = 2 * time.Second, 4500 * time.Millisecond
	unknownWait           = 20 * time.Second
	// Requests whose waits are added up are at most forgetWait apart.
	forgetWait = 30 * time.Second
	reportGap  = 2500 * time.Millisecond
	MaxGiven   = 3
)

// Silence is why an unresponsive server is suspect. It is immutable.
type Silence struct {
	// Since is when the server last showed progress.
	Since time.Time `json:"since"`
	// Headers means that the server sent headers and nothing else.
	Headers bool `json:"headersOnly,omitempty"`
	// Probe is the outcome of the last probe; "" before the first.
	Probe string `json:"probe,omitempty"`

	from int64
}

// String describes the silence to users.
func (s *Silence) String() string {
	text := "no answer"
	if s.Headers {
		text = "headers only"
	}
	text += " since " + s.Since.UTC().Format(time.RFC3339)
	if s.Probe != "" {
		text += " (probe: " + s.Probe + ")"
	}
	return text
}

type motion struct {
	silence atomic.Pointer[Silence]
	given   atomic.Int64 // requests sent since the server became silent
	plain   atomic.Int64 // requests in flight whose responses are not streamed
	page    atomic.Int64 // time of the last progress on a page
	blind   atomic.Bool  // a stream progressed after the last progress on a page
	began   atomic.Int64 // when the last silence began; 0 means never

	mu     sync.Mutex
	moved  int64 // time of the server's last progress
	proven int64
	// from and to are times between which requests waited, perhaps with gaps; from is 0 if no
	// request waited. limit is the longest allowed wait of these requests.
	from, to, limit int64
	// overdue is when a request exceeds its own limit; reported is when that request was last in
	// flight.
	overdue, reported int64
	headers           bool
	model             string
	tries             int // user requests sent as trials
	denied            bool
	retry             int64 // time from which the next trial may be sent
	firsts            firstTokens
	watched           bool
}

// Progress is a report of a request.
type Progress struct {
	Status   int
	Bytes    int64         // bytes of the response body
	Sent     time.Duration // time until the server had the whole request; 0 before
	First    time.Duration // time from Sent until the first body byte; 0 if unknown
	Streams  bool          // the headers arrived and allow a stream
	Ended    bool
	Canceled bool // the client or a timeout ended the request
}

// Progress records a report of the request.
func (lease *Lease) Progress(p Progress, now time.Time) {
	lease.mu.Lock()
	defer lease.mu.Unlock()
	load := lease.load
	if load == nil || load.registry == nil || !lease.work.Generates {
		return
	}
	if p.Status >= 400 {
		p.Bytes = 0 // the body is an error, perhaps of Envoy, so it shows no progress
	}
	at, bytes, before := sinceStart(now), lease.bytes, lease.shown
	lease.bytes, lease.shown = p.Bytes, at
	if p.Streams = p.Streams || lease.work.Stream; p.Streams {
		lease.movePlain(nil) // the body was not read, so the pick did not know that the response streams
	}
	event := lease.work.Early && !p.Ended // the first byte is not a token
	switch {
	case p.Status >= 400 && !p.Canceled:
	case p.Bytes > bytes && bytes == 0 && event:
	case p.Bytes > bytes:
		moved := at
		if page := load.motion.page.Load(); bytes > 0 && p.Streams && (page == 0 || page < before-int64(leastWait)) {
			load.motion.blind.Store(true)
		}
		if p.Streams && load.counts(at) != nil {
			if moved = before; bytes == 0 {
				moved = lease.sent + int64(p.First)
			}
		}
		load.moves(moved)
		if bytes == 0 && p.Streams && !lease.work.Early && p.First > 0 && !load.motion.stopped(lease.sent) {
			load.motion.first(lease.work.Prompt, p.First)
		}
	case p.Bytes > 0 && !event:
	case p.Ended && !p.Canceled:
	case p.Sent == 0:
		lease.sent = at // the request is still being uploaded
	default:
		lease.waits(p, at)
	}
}

// lease.mu is held.
func (lease *Lease) waits(p Progress, at int64) {
	w := wait{
		from: lease.sent + int64(max(0, p.Sent-lease.work.Held)), headers: p.Status > 0 && p.Status < 400,
		ended: p.Ended,
		model: cmp.Or(lease.tag.Asks, lease.tag.Model),
	}
	for _, load := range lease.waitsAt() {
		expected := load.expected(&lease.work)
		first := max(leastWait, beyond*expected)
		w.limit = int64(load.longest(first, lease.work.Whole, p.Streams, at, load == lease.load))
		// A request that ends early shows nothing: its client may have given up.
		late := !p.Ended || at-w.from >= int64(expected)
		if w.limit > 0 && late {
			load.waits(w, at)
		}
	}
}

// movePlain moves the count of a response that is not streamed to another server. If the parameter
// to is nil, it removes the count. lease.mu is held.
func (lease *Lease) movePlain(to *Load) {
	if !lease.plain {
		return
	}
	lease.load.motion.plain.Add(-1)
	if lease.plain = to != nil; lease.plain {
		to.motion.plain.Add(1)
	}
}

// lease.mu is held.
func (lease *Lease) waitsAt() []*Load {
	all := []*Load{lease.load}
	for _, part := range lease.parts {
		all = append(all, part.picked)
	}
	return all
}

// longest is how long a request may wait for a token before the server is silent; 0 means forever.
// first is the limit for the first token; whole is the predicted time to the request's end. own
// means that the server also generates the response.
func (l *Load) longest(first, whole time.Duration, streams bool, at int64, own bool) time.Duration {
	switch {
	case l.counts(at) != nil:
		return first
	case !own, streams && l.motion.plain.Load() > 0, !streams && whole == 0:
		return 0
	case streams:
		return max(leastBlind, first)
	default:
		return max(leastBlind, first, beyond*whole)
	}
}

func (m *motion) stopped(since int64) bool {
	began := m.began.Load()
	return began != 0 && began >= since
}

func (m *motion) read(l *Load, old, next *sample) {
	if old == nil || !old.CountsTokens || !next.CountsTokens {
		return
	}
	if old.Tokens != next.Tokens || old.KV != next.KV {
		m.page.Store(next.at)
		m.blind.Store(false)
		l.moves(next.at)
	}
}

// counts returns a fresh sample whose token counters rise while streams progress, or nil.
func (l *Load) counts(at int64) *sample {
	list := l.sources.Load()
	if list == nil || l.motion.blind.Load() {
		return nil
	}
	for _, src := range *list {
		s := src.sample.Load()
		if s != nil && s.CountsTokens && src.failures.Load() < src.staleAfter && at-s.at < src.freshFor.Load() {
			return s
		}
	}
	return nil
}

func (l *Load) moves(at int64) {
	m := &l.motion
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.moved == 0 || at > m.moved {
		m.moved = at
	}
	if m.from != 0 && at > m.from {
		if m.from = at; at >= m.to {
			m.from = 0
		}
		m.overdue = 0
	}
	if s := m.silence.Load(); s != nil && at > s.from {
		m.clear()
	}
}

// m.mu is held.
func (m *motion) clear() {
	m.silence.Store(nil)
	m.given.Store(0)
	m.denied, m.tries, m.retry, m.overdue = false, 0, 0, 0
}

type wait struct {
	from, limit    int64
	headers, ended bool
	model          string
}

func (l *Load) waits(w wait, now int64) {
	m := &l.motion
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.proven != 0 && w.from < m.proven {
		return // a later probe got a token, so only this request is lost
	}
	from := w.from
	if m.moved != 0 {
		from = max(from, m.moved)
	}
	if now <= from {
		return
	}
	if m.from == 0 || from-m.to > int64(forgetWait) {
		m.from, m.to, m.limit, m.overdue, m.headers = from, now, 0, 0, false
	} else {
		m.from = min(m.from+max(0, from-m.to), from)
	}
	m.to, m.limit = max(m.to, now), max(m.limit, w.limit)
	m.headers, m.model = m.headers || w.headers, cmp.Or(w.model, m.model)
	if !w.ended {
		m.reported = now
	}
	if due := from + w.limit; !w.ended && (m.overdue == 0 || due < m.overdue) {
		m.overdue = due
	} else if w.ended && now >= due {
		m.overdue = min(cmp.Or(m.overdue, due), due)
		m.reported = now
	}
	if !m.watched {
		m.watched = true
		l.registry.watch(l)
	}
}

func (l *Load) judge(now int64) {
	m := &l.motion
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.from == 0 || m.silence.Load() != nil {
		return
	}
	if now-m.to > int64(forgetWait) {
		m.from, m.overdue = 0, 0
		return
	}
	together := m.from + m.limit
	silent := m.to >= together || m.overdue != 0 && m.to >= m.overdue
	if page := l.counts(now); page != nil {
		// The page shows whether the requests of the last report still wait.
		waiting := m.overdue != 0 && now >= m.overdue && now-m.reported < int64(reportGap) && l.Total() > 0
		due := together
		if m.overdue != 0 {
			due = min(due, m.overdue)
		}
		if silent = silent || waiting; silent && page.at < due {
			l.readSoon()
			return
		}
	}
	if silent {
		m.fallSilent(now)
	}
}

// m.mu is held.
func (m *motion) fallSilent(now int64) {
	from := cmp.Or(m.from, now)
	m.given.Store(0)
	m.began.Store(now)
	m.silence.Store(&Silence{Since: processStart.Add(time.Duration(from)), Headers: m.headers, from: from})
}

func (l *Load) readSoon() {
	if list := l.sources.Load(); list != nil {
		for _, src := range *list {
			src.scrapeSoon()
		}
	}
}

// Suspect makes the server silent until it is probed, for tests.
func (l *Load) Suspect(now time.Time) {
	if l.registry == nil {
		return
	}
	m := &l.motion
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.silence.Load() == nil {
		m.fallSilent(sinceStart(now))
	}
	if !m.watched {
		m.watched = true
		l.registry.watch(l)
	}
}

// Silence returns why the server is silent, or nil.
func (l *Load) Silence() *Silence { return l.motion.silence.Load() }

// Addr returns the server's address.
func (l *Load) Addr() netip.AddrPort { return l.addr }

// Model returns the model of a waiting request; "" if unknown.
func (l *Load) Model() string {
	l.motion.mu.Lock()
	defer l.motion.mu.Unlock()
	return l.motion.model
}

// Answers records that a probe got a token. sent is the time of the probe.
func (l *Load) Answers(sent, now time.Time) {
	l.moves(sinceStart(now))
	l.health.succeed(sinceStart(now))
	m := &l.motion
	m.mu.Lock()
	defer m.mu.Unlock()
	m.proven = sinceStart(sent)
}

// Probed records a probe that got no token. denied means that the server denies all probes. Then
// user requests are sent as trials, one at a time, at growing intervals.
func (l *Load) Probed(outcome string, denied bool, now time.Time) {
	m := &l.motion
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.silence.Load()
	if s == nil {
		return
	}
	next := *s
	next.Probe = bounded(outcome)
	m.silence.Store(&next)
	if m.denied = denied; denied && m.retry == 0 {
		m.retry = sinceStart(now) + int64(firstTrial)
	}
}

func (m *motion) trialDue(now int64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.denied && now >= m.retry
}

func (m *motion) sentTo(trial bool, now int64) {
	if m.silence.Load() == nil {
		return
	}
	m.given.Add(1)
	if !trial {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.tries++
	m.retry = now + int64(min(firstTrial<<min(m.tries, 10), lastTrial))
}

func (r *Registry) watch(l *Load) {
	r.watching.Lock()
	r.watched = append(r.watched, l)
	r.watching.Unlock()
	notify(r.waits)
}

// Waiting receives a value when Silent has a new server to judge.
func (r *Registry) Waiting() <-chan struct{} { return r.waits }

// Silent judges the servers with waiting requests, and returns the silent servers that must be
// probed. more means that the caller must call Silent again soon.
func (r *Registry) Silent(now time.Time) (silent []*Load, more bool) {
	r.watching.Lock()
	list := r.watched
	r.watched = nil // watch may add to it meanwhile
	r.watching.Unlock()
	at, kept := sinceStart(now), list[:0]
	for _, l := range list {
		l.judge(at)
		if l.stays(r.Find(l.addr) == l) {
			kept = append(kept, l)
		}
		if l.Silence() != nil {
			silent = append(silent, l)
		}
	}
	r.watching.Lock()
	defer r.watching.Unlock()
	r.watched = append(r.watched, kept...)
	return silent, len(r.watched) > 0
}

// stays reports whether the server stays watched. A server outside all pools is not silent.
func (l *Load) stays(in bool) bool {
	m := &l.motion
	m.mu.Lock()
	defer m.mu.Unlock()
	if !in {
		m.from = 0
		m.clear()
	}
	m.watched = m.from != 0 || m.silence.Load() != nil
	return m.watched
}
