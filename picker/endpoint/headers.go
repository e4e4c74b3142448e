package endpoint

import (
	"cmp"
	"math"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"
)

// The headers limit is how long a stream waits for response headers before the gateway tries
// another server. minHeadersLimit allows for a pause of a busy server. MaxHeadersLimit applies to
// prompt lengths with fewer than headersEnough samples.
const (
	minHeadersLimit = time.Second
	MaxHeadersLimit = 20 * time.Second
	headersEnough   = 100
	// The limit is headersTimes the 99th percentile of the times to the headers.
	headersTimes = 4
)

const (
	// A server sends headers before it reads the prompt if, in most of at least headersSeen recent
	// responses, the headers precede the body by at least headersGap.
	headersGap  = 10 * time.Millisecond
	headersSeen = 20

	// A prompt's class is the binary logarithm of its tokens. Each class keeps its last headersKept
	// samples.
	lengths      = 21
	headersKept  = 128
	headersSteps = 128
	shortestStep = time.Millisecond
)

// HeaderLimits are the headers limits that a process learned for a server.
type HeaderLimits struct {
	// First means that the server sends headers before it reads the prompt.
	First bool
	// Of is the limit for each class of prompt length; 0 after too few responses.
	Of [lengths]time.Duration
}

func (l *HeaderLimits) valid() bool {
	for _, limit := range l.Of {
		if limit != 0 && (limit < minHeadersLimit || limit > MaxHeadersLimit) {
			return false
		}
	}
	return true
}

type headers struct {
	limits atomic.Pointer[HeaderLimits]

	mu          sync.Mutex
	seen, first float64 // decaying numbers of responses, and of responses whose headers precede the body by headersGap
	kept        [lengths]lastHeaders
	longer      [lengths]headersTook // element i is for prompts of class i or longer
}

type lastHeaders struct {
	ring  [headersKept]uint8
	count int
}

type headersTook struct {
	steps [headersSteps]uint16
	count int
}

func lengthClass(tokens int) int { return min(bits.Len(uint(max(tokens, 0))), lengths-1) }

func headersStep(d time.Duration) uint8 {
	if d <= shortestStep {
		return 0
	}
	return uint8(min(math.Ceil(8*math.Log2(float64(d)/float64(shortestStep))), headersSteps-1))
}

func stepEnds(step int) time.Duration {
	return time.Duration(math.Exp2(float64(step)/8) * float64(shortestStep))
}

func (h *headers) add(tokens int, took, gap time.Duration) (changed bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.keep(lengthClass(tokens), headersStep(took))
	if gap >= 0 {
		h.seen, h.first = decay*h.seen+1, decay*h.first
		if gap >= headersGap {
			h.first++
		}
	}
	if h.seen < headersSeen {
		return false
	}
	limits := HeaderLimits{First: h.first >= h.seen/2}
	for class := range limits.Of {
		if limits.First {
			limits.Of[class] = h.longer[class].limit()
		}
	}
	if old := h.limits.Load(); old != nil && *old == limits {
		return false
	}
	h.limits.Store(&limits)
	return true
}

// The caller holds h.mu.
func (h *headers) keep(class int, step uint8) {
	kept := &h.kept[class]
	place := &kept.ring[kept.count%headersKept]
	for i := range class + 1 {
		if at := &h.longer[i]; kept.count >= headersKept {
			at.steps[*place]--
			at.steps[step]++
		} else {
			at.steps[step]++
			at.count++
		}
	}
	*place = step
	kept.count++
}

func (t *headersTook) limit() time.Duration {
	if t.count < headersEnough {
		return 0
	}
	step := headersSteps - 1
	for above := int(t.steps[step]); above <= t.count/100; above += int(t.steps[step]) {
		step--
	}
	return min(max(headersTimes*stepEnds(step), minHeadersLimit), MaxHeadersLimit)
}

// HeadersLimit returns how long a stream with a prompt of this many tokens waits for the server's
// headers before the gateway tries another server. 0 means no limit, because the server is not
// known to send headers before it reads the prompt.
func (l *Load) HeadersLimit(tokens int) time.Duration {
	own, elsewhere := l.headerLimits(), l.headersElsewhere.Load()
	if own == nil {
		own = elsewhere
	}
	if own == nil || !own.First {
		return 0
	}
	limit := own.Of[lengthClass(tokens)]
	if limit == 0 && elsewhere != nil {
		limit = elsewhere.Of[lengthClass(tokens)]
	}
	return cmp.Or(limit, MaxHeadersLimit)
}

func (l *Load) headerLimits() *HeaderLimits {
	if learned := l.headers.Load(); learned != nil {
		return learned.limits.Load()
	}
	return nil
}

// Answered records the times from the server's receipt of the request to the headers and to the
// first byte of the body. The caller calls it before Begun. Only the first call for a request
// counts, and only if the picked server streams the response.
func (lease *Lease) Answered(headersAfter, first time.Duration) {
	lease.mu.Lock()
	defer lease.mu.Unlock()
	if lease.begun || !lease.work.Stream || lease.load == nil || lease.load != lease.picked {
		return
	}
	gap := max(first-headersAfter, 0)
	if lease.work.Early {
		gap = -1 // an early event, sent with the headers, has the first byte
	}
	at := lease.load
	learned := at.headers.Load()
	if learned == nil {
		at.headers.CompareAndSwap(nil, new(headers))
		learned = at.headers.Load()
	}
	if learned.add(lease.tag.Tokens, headersAfter, gap) {
		at.newHeaders.Store(true)
		at.markDirty()
	}
}

// LimitHeaders records the request's headers limit; 0 means no limit.
func (lease *Lease) LimitHeaders(limit time.Duration) {
	lease.mu.Lock()
	defer lease.mu.Unlock()
	lease.headersLimit = limit
}

// Exceeds reports whether after, the time to the headers, reached the limit of LimitHeaders. Later
// calls return false. passed means that another server sent the headers.
func (lease *Lease) Exceeds(after time.Duration, passed bool) bool {
	lease.mu.Lock()
	defer lease.mu.Unlock()
	exceeds := lease.headersLimit > 0 && after >= lease.headersLimit
	lease.headersLimit = 0
	lease.frozen = lease.frozen || exceeds && passed
	return exceeds
}

// Frozen reports whether the picked server exceeded the headers limit and another server responded.
func (lease *Lease) Frozen() bool {
	lease.mu.Lock()
	defer lease.mu.Unlock()
	return lease.frozen
}
