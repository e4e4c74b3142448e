package endpoint

import (
	"cmp"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A server's page has the tokens of prompts that it has computed, and the seconds that this took.
// With one prompt at a time their quotient is its rate. With several at once each second counts for
// each of them, and vLLM adds both when a request ends. So a second reading has to agree: the
// tokens over the time in which prompts of ours were unread there. Prompts of other senders are
// missing in that time, and prompts that wait for a slot prolong it: then both differ, and the
// server's earlier rate stays. Both are compared from one moment without requests to the next one,
// or over reportedWindow where there is none.
//
// The first token of an answer that is not streamed is not seen, nor is it where events precede it.
// Such a prompt is taken to be unread for its share of the server's seconds, from when it was sent,
// and at most until its answer ended: so both readings agree where prompts follow each other, and
// differ where the seconds of several are the same. Pages must show no queue then, and no prompts
// of other senders.
const (
	reportedWindow = 30 * time.Second
	// agreeing is the largest quotient of two rates that agree.
	agreeing = 1.3
	// tokenizing is the largest quotient of a prompt's tokens as they are counted here and by a
	// server.
	tokenizing = 4
	// reportedFor is how long a rate counts without another one.
	reportedFor = 10 * time.Minute
	// longFrom is the least mean of tokens that a request of a window has. By simulation of short
	// questions about long documents, where one of 20 requests reads its document, means of 600
	// tokens make a server of 8,000 tokens a second look like one of 3,000.
	longFrom = 1024
	// windows is how many rates the median is of.
	windows = 9
)

// RateSource is how a server's rate is known.
type RateSource string

// The sources of a rate.
const (
	Reported RateSource = "reported" // by the server's own series
	Inferred RateSource = "inferred" // from first tokens
)

// span is a part of time, in nanoseconds since processStart.
type span struct{ from, to int64 }

// progress is the evidence of first tokens about a server: for how long it had unread prompts, in
// nanoseconds, and of how many requests, with how many tokens. hidden are the requests among them
// whose first tokens were not seen, and answered all requests with a prompt, short ones included.
type progress struct{ unread, requests, tokens, hidden, answered int64 }

// hides reports whether enough prompts until end were hidden, and were most of all.
func (p *progress) hides(end *progress) bool {
	hidden := end.hidden - p.hidden
	return hidden >= fewHidden && 2*hidden >= end.requests-p.requests
}

// asked is a prompt that was unread for a span, or within it if its first token was not seen.
type asked struct {
	span
	tokens int64
	hidden bool
}

// spans add up to a progress. Responses begin in another order than they are reported in, so the
// last spans stay apart.
type spans struct {
	progress
	last []span // disjoint, by time
	// prompts is a ring of the last ones, by their number in progress.requests.
	prompts []asked
}

// maxSpans bounds spans.last. Reports of first tokens are late by 2 s at most.
const maxSpans = 32

// maxAsked bounds spans.prompts. A window ends with fewHidden hidden prompts if they are most of
// its prompts: under load there may be no moment without requests.
const maxAsked, fewHidden = 64, 8

// prompt adds a prompt.
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

// add adds a time with unread prompts.
func (s *spans) add(is span) {
	s.last = slices.DeleteFunc(s.last, func(o span) bool {
		if o.to < is.from || is.to < o.from {
			return false
		}
		s.unread -= o.to - o.from
		is.from, is.to = min(is.from, o.from), max(is.to, o.to)
		return true
	})
	s.unread += is.to - is.from
	if len(s.last) == maxSpans {
		s.last = slices.Delete(s.last, 0, 1)
	}
	at, _ := slices.BinarySearchFunc(s.last, is.from, func(o span, from int64) int { return int(o.from - from) })
	s.last = slices.Insert(s.last, at, is)
}

// begun records how long a prompt was unread at a server: until its first token, or for a part of
// that time if it is hidden.
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

// unreadBy returns for how long prompts were unread in a window, in seconds, if each hidden one was
// for its share of the seconds that the server shows; 0: not known.
func (p *prefill) unreadBy(begin, end progress, seconds float64) float64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.spans.requests-begin.requests > maxAsked {
		return 0 // the first ones are overwritten
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
	for _, is := range prompts {
		unread += max(0, is.to-max(is.from, until))
		until = max(until, is.to)
	}
	return float64(unread) / 1e9
}

// reported is the rate by a server's own series.
type reported struct {
	rate atomic.Uint64 // in tokens as requests are counted here; bits of a float64; 0: none
	at   atomic.Int64  // when both readings agreed last, in nanoseconds since processStart

	mu     sync.Mutex
	page   *source // whose series count, of several pages of the server
	last   int64   // when it was read
	begin  mark
	crowd  bool             // a page of the window shows a queue, or prompts of other senders
	ratios [windows]float64 // tokens of the server for one of ours
	rates  [windows]float64 // in the server's tokens
	count  int
}

// mark is the begin of a window.
type mark struct {
	at              int64
	tokens, seconds float64 // of the page
	prefills        float64 // how many prompts its seconds are of; 0: it does not show that
	progress
}

// read returns the rate at a moment; 0: none.
func (r *reported) read(now int64) float64 {
	bits := r.rate.Load()
	if bits == 0 || now-r.at.Load() > int64(reportedFor) {
		return 0
	}
	return math.Float64frombits(bits)
}

// SetReported makes a rate count as one that the server has reported, for callers that know it by
// other means than its page.
func (l *Load) SetReported(rate float64, now time.Time) {
	l.reported.rate.Store(math.Float64bits(rate))
	l.reported.at.Store(sinceStart(now))
}

// take takes what a page shows. quiet means that no request is there, crowd that some wait, or are
// of other senders.
func (r *reported) take(page *source, is *Reading, quiet, crowd bool, now int64, p *prefill) {
	done := p.progress()
	r.mu.Lock()
	defer r.mu.Unlock()
	if page != r.page && r.page != nil && r.begin.tokens > 0 && now-r.last < int64(reportedWindow) {
		return
	}
	next := mark{now, is.PrefillTokens, is.PrefillSeconds, is.Prefills, done}
	r.crowd = r.crowd || crowd
	restarted := is.PrefillTokens < r.begin.tokens || is.PrefillSeconds < r.begin.seconds
	switch r.last = now; {
	case page != r.page || restarted: // it may be another server now
		if r.begin.tokens > 0 {
			r.count = 0
			r.rate.Store(0)
		}
		r.page, r.begin, r.crowd = page, next, crowd
	case quiet || now-r.begin.at >= int64(reportedWindow) || r.begin.progress.hides(&done):
		r.compare(&next, now, p)
		r.begin, r.crowd = next, crowd
	}
}

// compare ends a window. r.mu is held.
func (r *reported) compare(next *mark, now int64, p *prefill) {
	tokens, seconds := next.tokens-r.begin.tokens, next.seconds-r.begin.seconds
	unread := float64(next.unread-r.begin.unread) / 1e9
	requests, ours := float64(next.requests-r.begin.requests), float64(next.progress.tokens-r.begin.progress.tokens)
	// The time of short prompts is mostly the length of a step, and of the one that they wait for.
	seconds -= requests * step.Seconds()
	if requests == 0 || ours < longFrom*requests || tokens < longFrom*requests/2 || seconds <= 0 || unread <= 0 {
		return
	}
	// A quotient beyond that of tokenizers means that the cache had more of the prompts than was
	// believed, or less.
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
	r.ratios[r.count%windows], r.rates[r.count%windows] = tokens/ours, 2*tokens/(seconds+unread)
	r.count++
	n := min(r.count, windows)
	rate := median(r.rates, n) / median(r.ratios, n)
	r.rate.Store(math.Float64bits(min(max(rate, minRate), maxRate)))
	r.at.Store(now)
}

func agree(a, b float64) bool { return a <= agreeing*b && b <= agreeing*a }

// median returns the median of the first n values.
func median(values [windows]float64, n int) float64 {
	slices.Sort(values[:n])
	return (values[(n-1)/2] + values[n/2]) / 2
}
