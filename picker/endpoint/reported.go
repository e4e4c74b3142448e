package endpoint

import (
	"cmp"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A metrics page counts the prompt tokens that the server computed, and the seconds that this took.
// If the server reads one prompt at a time, tokens divided by seconds is its rate. If it reads
// several at a time, the page counts each second once for each prompt. So a second rate must agree:
// tokens divided by the time in which this process had unread prompts at the server. Both rates are
// for a window of time: from one moment without requests to the next, or for reportedWindow.
//
// The time of the first token is hidden if a response is not streamed, or begins with an early
// event. The prompt then counts as unread from its sending for its share of the server's seconds,
// but at most until the response's end. In a window with such prompts, no request may wait in the
// server's queue, and no other client may send prompts.
const (
	reportedWindow = 30 * time.Second
	// Two rates agree if the larger is at most agreeing times the smaller.
	agreeing = 1.3
	// tokenizing is the largest plausible factor between a prompt's tokens here and at a server.
	tokenizing  = 4
	reportedFor = 10 * time.Minute
	// longFrom is the least mean number of tokens per request in a window. With a lower mean, a few
	// long prompts among many short ones show too low a rate.
	longFrom = 1024
	windows  = 9
)

// RateSource is the source of a server's prefill rate.
type RateSource string

const (
	Reported RateSource = "reported" // rate from the metrics page
	Inferred RateSource = "inferred" // rate from the times to the first token
)

// in nanoseconds since processStart
type span struct{ from, to int64 }

// progress has totals over a server's requests whose first token has arrived. unread is the time
// with unread prompts, in nanoseconds. tokens counts prompt tokens, and hidden the requests whose
// first token was hidden. answered counts all requests; requests only those with uncached prompts.
type progress struct{ unread, requests, tokens, hidden, answered int64 }

func (p *progress) hides(end *progress) bool {
	hidden := end.hidden - p.hidden
	return hidden >= fewHidden && 2*hidden >= end.requests-p.requests
}

type asked struct {
	span
	tokens int64
	hidden bool
}

// spans has progress, and the last spans with unread prompts. Reports of responses come out of
// order, so a new span may overlap earlier ones.
type spans struct {
	progress
	last    []span  // disjoint, sorted
	prompts []asked // a ring: request n is at index n%maxAsked
}

// maxSpans suffices because first tokens are reported at most 2 s late.
const maxSpans = 32

// A window also ends at fewHidden hidden prompts, if at least half of its prompts are hidden: under
// load there may be no moment without requests.
const maxAsked, fewHidden = 64, 8

func (s *spans) prompt(p asked) {
	at := int(s.requests % maxAsked)
	if at == len(s.prompts) {
		s.prompts = append(s.prompts, p)
	}
	s.prompts[at] = p
	s.requests++
	s.tokens += p.tokens
	if p.hidden {
		s.hidden++
	}
	s.add(p.span)
}

func (s *spans) add(next span) {
	s.last = slices.DeleteFunc(s.last, func(o span) bool {
		if o.to < next.from || next.to < o.from {
			return false
		}
		s.unread -= o.to - o.from
		next.from, next.to = min(next.from, o.from), max(next.to, o.to)
		return true
	})
	s.unread += next.to - next.from
	if len(s.last) == maxSpans {
		s.last = slices.Delete(s.last, 0, 1)
	}
	at, _ := slices.BinarySearchFunc(s.last, next.from, func(o span, from int64) int { return int(o.from - from) })
	s.last = slices.Insert(s.last, at, next)
}

func (p *prefill) begun(from int64, after time.Duration, tokens int64, hidden bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.spans.answered++
	if tokens > 0 && after > step {
		p.spans.prompt(asked{span{from, from + int64(after-step)}, tokens, hidden})
	}
}

func (p *prefill) progress() progress {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.spans.progress
}

// unreadBy returns how many seconds of a window had unread prompts; 0 if unknown. It assumes that
// each hidden prompt took its share, by tokens, of the page's seconds.
func (p *prefill) unreadBy(begin, end progress, seconds float64) float64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.spans.requests-begin.requests > maxAsked {
		return 0 // the ring lacks the window's first prompts
	}
	share := seconds * 1e9 / float64(end.tokens-begin.tokens)
	var prompts []asked
	for i := begin.requests; i < end.requests; i++ {
		next := p.spans.prompts[i%maxAsked]
		if next.hidden {
			next.to = min(next.to, next.from+int64(share*float64(next.tokens)))
		}
		prompts = append(prompts, next)
	}
	slices.SortFunc(prompts, func(a, b asked) int { return cmp.Compare(a.from, b.from) })
	unread, until := int64(0), int64(math.MinInt64)
	for _, p := range prompts {
		unread += max(0, p.to-max(p.from, until))
		until = max(until, p.to)
	}
	return float64(unread) / 1e9
}

type reported struct {
	rate atomic.Uint64 // in tokens a second, as this picker counts tokens; bits of a float64; 0 if unknown
	at   atomic.Int64  // when both rates last agreed, in nanoseconds since processStart

	mu     sync.Mutex
	page   *source
	last   int64
	begin  mark
	crowd  bool      // in this window, requests waited or other clients sent requests
	ratios []float64 // of the last windows: the server's tokens per token counted here
	rates  []float64 // of the last windows, in the server's tokens a second
	count  int
}

type mark struct {
	at              int64
	tokens, seconds float64
	prefills        float64 // 0 if unknown
	progress
}

func (r *reported) read(now int64) float64 {
	bits := r.rate.Load()
	if bits == 0 || now-r.at.Load() > int64(reportedFor) {
		return 0
	}
	return math.Float64frombits(bits)
}

// SetReported sets a reported rate that does not come from the metrics page.
func (l *Load) SetReported(rate float64, now time.Time) {
	l.reported.rate.Store(math.Float64bits(rate))
	l.reported.at.Store(sinceStart(now))
}

// take adds a reading of a page. It ends the window if the server has no requests (quiet) or the
// window is long enough. crowd means that requests wait, or that other clients send requests.
func (r *reported) take(page *source, reading *Reading, quiet, crowd bool, now int64, p *prefill) {
	done := p.progress()
	r.mu.Lock()
	defer r.mu.Unlock()
	if page != r.page && r.page != nil && r.begin.tokens > 0 && now-r.last < int64(reportedWindow) {
		return
	}
	next := mark{now, reading.PrefillTokens, reading.PrefillSeconds, reading.Prefills, done}
	r.crowd = r.crowd || crowd
	restarted := reading.PrefillTokens < r.begin.tokens || reading.PrefillSeconds < r.begin.seconds
	switch r.last = now; {
	case page != r.page || restarted: // the page may belong to another server now
		if r.begin.tokens > 0 {
			r.ratios, r.rates, r.count = nil, nil, 0
			r.rate.Store(0)
		}
		r.page, r.begin, r.crowd = page, next, crowd
	case quiet || now-r.begin.at >= int64(reportedWindow) || r.begin.progress.hides(&done):
		r.compare(&next, now, p)
		r.begin, r.crowd = next, crowd
	}
}

// The caller holds r.mu.
func (r *reported) compare(next *mark, now int64, p *prefill) {
	tokens, seconds := next.tokens-r.begin.tokens, next.seconds-r.begin.seconds
	unread := float64(next.unread-r.begin.unread) / 1e9
	requests, ours := float64(next.requests-r.begin.requests), float64(next.progress.tokens-r.begin.progress.tokens)
	// Each prompt waits for about one step of the engine.
	seconds -= requests * step.Seconds()
	if requests == 0 || ours < longFrom*requests || tokens < longFrom*requests/2 || seconds <= 0 || unread <= 0 {
		return
	}
	// A larger factor means that this process assumed wrong numbers of cached tokens.
	if tokens > tokenizing*ours || ours > tokenizing*tokens {
		return
	}
	if next.hidden > r.begin.hidden && !agree(unread, seconds) {
		answered := float64(next.answered - r.begin.answered)
		if r.crowd || next.prefills > 0 && !agree(next.prefills-r.begin.prefills, answered) {
			return
		}
		unread = p.unreadBy(r.begin.progress, next.progress, seconds)
	}
	if !agree(unread, seconds) {
		return
	}
	r.ratios = ring(r.ratios, r.count, windows, tokens/ours)
	r.rates = ring(r.rates, r.count, windows, 2*tokens/(seconds+unread))
	r.count++
	rate := median(r.rates) / median(r.ratios)
	r.rate.Store(math.Float64bits(min(max(rate, minRate), maxRate)))
	r.at.Store(now)
}

func agree(a, b float64) bool { return a <= agreeing*b && b <= agreeing*a }

func median(values []float64) float64 {
	var memory [windows]float64
	sorted := memory[:copy(memory[:], values)]
	slices.Sort(sorted)
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}
