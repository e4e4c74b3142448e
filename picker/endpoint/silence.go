package endpoint

import (
	"cmp"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// If an engine hangs behind a healthy API server, the server accepts requests and sends headers,
// but no tokens. A server becomes silent, and so suspect, if requests wait far longer than
// predicted for their first token while the server shows no progress: no body byte of any request,
// and no change of the token counters on its page. Without token counters, a response that is not
// streamed shows no progress until its end. During such a response, only its own predicted total
// time counts, and waiting streams at the same server are ignored.
const (
	// A wait is too long beyond this multiple of the predicted time.
	beyond = 4
	// leastWait is the shortest wait that can be too long. Without token counters it is leastBlind,
	// because streams report their bytes only every 2 s.
	leastWait, leastBlind = 2 * time.Second, 4500 * time.Millisecond
	unknownWait           = 20 * time.Second
	// Successive requests' waits are added up over gaps of at most forgetWait.
	forgetWait = 30 * time.Second
	reportGap  = 2500 * time.Millisecond
	MaxGiven   = 3
)

// Silence describes why a server is suspect that sends no tokens. It is immutable.
type Silence struct {
	// Since is when requests began to wait without progress.
	Since time.Time `json:"since"`
	// Headers means that the server sent response headers, but no body.
	Headers bool `json:"headersOnly,omitempty"`
	// Probe is the outcome of the last probe; "" before the first.
	Probe string `json:"probe,omitempty"`

	from int64
}

// String describes s to users.
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
	given   atomic.Int64 // requests sent to the server since it became silent
	plain   atomic.Int64
	page    atomic.Int64 // when a page's token counters or KV cache usage last changed
	blind   atomic.Bool  // a stream made progress without a change of the page's counters
	began   atomic.Int64 // last silence; 0 means never

	mu     sync.Mutex
	moved  int64 // last progress of the server
	proven int64
	// Requests waited between from and to, perhaps with gaps; from is 0 without waiting requests.
	// limit is the longest wait that any of these requests may have.
	from, to, limit int64
	// overdue is when the first request exceeds its own limit; 0 if none. reported is the last
	// report of a waiting request.
	overdue, reported int64
	headers           bool
	model             string
	tries             int // users' requests sent as trials since the server became silent
	denied            bool
	retry             int64 // time of the next trial
	firsts            firstTokens
	watched           bool
}

// Progress is a report of a request's progress, from an access log entry or a stream.
type Progress struct {
	Status   int
	Bytes    int64         // of the response body so far
	Sent     time.Duration // until the server had the whole request; 0 while it does not
	First    time.Duration // from Sent to the first body byte; 0 if unknown
	Streams  bool          // the response's headers arrived and allow a stream
	Ended    bool
	Canceled bool // the client or a timeout ended the request
}

// Progress records a report of the request's progress.
func (lease *Lease) Progress(p Progress, now time.Time) {
	lease.mu.Lock()
	defer lease.mu.Unlock()
	load := lease.load
	if load == nil || load.registry == nil || !lease.work.Generates {
		return
	}
	if p.Status >= 400 {
		p.Bytes = 0 // an error message, perhaps from Envoy, shows no progress of the server
	}
	at, bytes, before := sinceStart(now), lease.bytes, lease.shown
	lease.bytes, lease.shown = p.Bytes, at
	if p.Streams = p.Streams || lease.work.Stream; p.Streams {
		lease.movePlain(nil) // the pick could not see the stream, because it did not read the body
	}
	event := lease.work.Early && !p.Ended // the first bytes may be an early event, not a token
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
		lease.sent = at // the upload continues
	default:
		lease.waits(p, at)
	}
}

// The caller holds lease.mu.
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
		// A request that ends before the expected time does not count: its client may have left.
		late := !p.Ended || at-w.from >= int64(expected)
		if w.limit > 0 && late {
			load.waits(w, at)
		}
	}
}

// movePlain moves the request, whose response is not streamed, from its server's count to another
// server's, or to none if to is nil. The caller holds lease.mu.
func (lease *Lease) movePlain(to *Load) {
	if !lease.plain {
		return
	}
	lease.load.motion.plain.Add(-1)
	if lease.plain = to != nil; lease.plain {
		to.motion.plain.Add(1)
	}
}

// The caller holds lease.mu.
func (lease *Lease) waitsAt() []*Load {
	all := []*Load{lease.load}
	for _, part := range lease.parts {
		all = append(all, part.picked)
	}
	return all
}

// longest returns how long a request may wait for a token before the server counts as silent; 0
// means forever. first is the limit for the first token, and whole the predicted time to the end of
// the response. own means that the server generates the response, and not only reads the prompt.
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

// counts returns a fresh sample with token counters. It returns nil without one, or if a stream
// made progress while the counters stayed the same.
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

// The caller holds m.mu.
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
		return // a later probe got a token, so only this request hangs
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
		// After a recent report, its requests probably still wait. A page read after the limit
		// shows whether the server made progress.
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

// The caller holds m.mu.
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

// Suspect makes the server silent until a probe, for tests.
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

// Silence describes why the server is silent, or is nil.
func (l *Load) Silence() *Silence { return l.motion.silence.Load() }

// Addr returns the server's address.
func (l *Load) Addr() netip.AddrPort { return l.addr }

// Model returns the model of a request that waited at the server; "" if unknown.
func (l *Load) Model() string {
	l.motion.mu.Lock()
	defer l.motion.mu.Unlock()
	return l.motion.model
}

// Answers records that a probe, sent at the time sent, got a token.
func (l *Load) Answers(sent, now time.Time) {
	l.moves(sinceStart(now))
	l.health.succeed(sinceStart(now))
	m := &l.motion
	m.mu.Lock()
	defer m.mu.Unlock()
	m.proven = sinceStart(sent)
}

// Probed records a probe that got no token. denied means that the server denies every probe. User
// requests then serve as trials, one at a time, at growing intervals.
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

// Waiting returns a channel that receives a value when Silent has a new server to judge.
func (r *Registry) Waiting() <-chan struct{} { return r.waits }

// Silent judges all servers with waiting requests, and returns the silent ones, which the caller
// must probe. more means that the caller must call Silent again soon.
func (r *Registry) Silent(now time.Time) (silent []*Load, more bool) {
	r.watching.Lock()
	list := r.watched
	r.watched = nil // watch may add servers concurrently
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

// stays reports whether the server stays in Registry.watched. in means that a pool has the server;
// otherwise the server is no longer silent.
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
