package endpoint

import (
	"cmp"
	"math"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"
)

// Bounds of the wait for a stream's headers. minHeadersLimit leaves a busy server time for a pause
// of its process. MaxHeadersLimit is for prompts of a length that has fewer than headersEnough
// samples.
const (
	minHeadersLimit = time.Second
	MaxHeadersLimit = 20 * time.Second
	headersEnough   = 100
	// headersTimes is how many times their 99th percentile the headers may take.
	headersTimes = 4
)

const (
	// headersGap is how long the headers precede the first byte of the body at least if a server
	// sends them before it has read the prompt. Most of the last responses show that, from
	// headersSeen on.
	headersGap  = 10 * time.Millisecond
	headersSeen = 20

	// lengths are the classes of prompts, by the power of two of their tokens. Of each, the last
	// headersKept samples count: so a class of rare prompts has enough of them, too.
	lengths     = 21
	headersKept = 128
	// steps are the classes of times: eight for each doubling, from shortestStep on.
	headersSteps = 128
	shortestStep = time.Millisecond
)

// HeaderLimits is what a process has learned of a server's headers.
type HeaderLimits struct {
	// First means that the server sends a stream's headers before it reads the prompt.
	First bool
	// Of is how long they may take, by the class of the prompt's length; 0: too few were seen.
	Of [lengths]time.Duration
}

// valid reports whether a process can have learned the limits.
func (l *HeaderLimits) valid() bool {
	for _, limit := range l.Of {
		if limit != 0 && (limit < minHeadersLimit || limit > MaxHeadersLimit) {
			return false
		}
	}
	return true
}

// headers learns when a server sends the headers of streams, by the length of their prompts.
type headers struct {
	limits atomic.Pointer[HeaderLimits] // nil: too few responses were seen

	mu          sync.Mutex
	seen, first float64 // how many responses there were, and clearly had headers first; older ones count less
	kept        [lengths]lastHeaders
	longer      [lengths]headersTook // of the prompts of a class and of all longer ones
}

// lastHeaders are the last samples of prompts of one class, as steps.
type lastHeaders struct {
	ring  [headersKept]uint8
	count int // of all samples
}

// headersTook is how many samples have each step.
type headersTook struct {
	steps [headersSteps]uint16
	count int
}

// lengthClass returns the class of prompts with so many tokens.
func lengthClass(tokens int) int { return min(bits.Len(uint(max(tokens, 0))), lengths-1) }

// headersStep returns the class of a time, and stepEnds the longest time of one.
func headersStep(d time.Duration) uint8 {
	if d <= shortestStep {
		return 0
	}
	return uint8(min(math.Ceil(8*math.Log2(float64(d)/float64(shortestStep))), headersSteps-1))
}

func stepEnds(step int) time.Duration {
	return time.Duration(math.Exp2(float64(step)/8) * float64(shortestStep))
}

// add takes the time to a response's headers, and how much later its body began; less than 0:
// unknown. It returns true if that changes the limits.
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

// keep counts a sample in place of the oldest one of its class. mu is held.
func (h *headers) keep(class int, step uint8) {
	of := &h.kept[class]
	place := &of.ring[of.count%headersKept]
	for i := range class + 1 {
		if at := &h.longer[i]; of.count >= headersKept {
			at.steps[*place]--
			at.steps[step]++
		} else {
			at.steps[step]++
			at.count++
		}
	}
	*place = step
	of.count++
}

// limit is how long headers may take by these samples; 0: they are too few.
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

// HeadersLimit returns how long a stream with a prompt of so many tokens waits at most for its
// headers there before another server is asked: 0 if the server is not known to send them before it
// reads the prompt. Where this process has seen too few responses, those of its peers count.
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

// headerLimits is what this process has learned; nil: nothing.
func (l *Load) headerLimits() *HeaderLimits {
	if of := l.headers.Load(); of != nil {
		return of.limits.Load()
	}
	return nil
}

// Answered records when the headers of the response came, and the first byte of its body, counted
// from when the server got the request. It is called before Begun; only the first call of a stream
// at the server that was picked counts.
func (lease *Lease) Answered(headersAfter, first time.Duration) {
	lease.mu.Lock()
	defer lease.mu.Unlock()
	if lease.begun || !lease.work.Stream || lease.load == nil || lease.load != lease.picked {
		return
	}
	gap := max(first-headersAfter, 0)
	if lease.work.Early {
		gap = -1 // the first byte is an event that comes with the headers
	}
	at := lease.load
	of := at.headers.Load()
	if of == nil {
		at.headers.CompareAndSwap(nil, new(headers))
		of = at.headers.Load()
	}
	if of.add(lease.tag.Tokens, headersAfter, gap) {
		at.newHeaders.Store(true)
		at.markDirty()
	}
}

// LimitHeaders records that the gateway asks another server if the headers take longer; 0: it does
// not.
func (lease *Lease) LimitHeaders(limit time.Duration) {
	lease.mu.Lock()
	defer lease.mu.Unlock()
	lease.headersLimit = limit
}

// Exceeds takes the time to a response's headers. It returns true once, if that is longer than the
// limit. passed means that another server has sent them: then Frozen is true from now on.
func (lease *Lease) Exceeds(after time.Duration, passed bool) bool {
	lease.mu.Lock()
	defer lease.mu.Unlock()
	exceeds := lease.headersLimit > 0 && after >= lease.headersLimit
	lease.headersLimit = 0
	lease.frozen = lease.frozen || exceeds && passed
	return exceeds
}

// Frozen reports whether the server that was picked has exceeded its limit, and another one has
// answered.
func (lease *Lease) Frozen() bool {
	lease.mu.Lock()
	defer lease.mu.Unlock()
	return lease.frozen
}
