package endpoint

import (
	"cmp"
	"slices"
	"time"
)

// Some servers send an event before they read the prompt, so their first byte is not the first
// token. They are known by their engine and API, or because the first byte takes a constant time
// for any prompt length. Such first bytes neither end a backlog nor show a rate.

// FirstEventIsEarly reports whether e's engine begins a stream of OpenAI's Responses API before it
// has read the prompt. vLLM does; unknown engines count as vLLM.
func (e *Endpoint) FirstEventIsEarly() bool { return e.earlyEvents }

// Thresholds for the times to first bytes. Where a server reads the prompt first, these times grow
// in proportion to the prompt. They are constant if they grow by less than constantBelow of that,
// and stay constant until they grow by constantAbove; earlyFrom samples are needed. earlyWithin is
// in seconds: an early event also precedes the engine's queue, so later times that look constant
// are due to a queue.
const (
	earlyFrom     = 16
	constantBelow = 0.1
	constantAbove = 0.3
	earlyWithin   = 0.5
)

type firstByte struct {
	tokens int64
	after  time.Duration
}

// constant reports whether the times to first bytes do not depend on prompt lengths; before is the
// previous result. It compares the shorter half of the prompts with the longer half, by the second
// fastest quarter of each: the fastest prompts may be cached, and slower ones wait for an adapter
// or for other clients' prompts.
func constant(all []firstByte, before bool) bool {
	if len(all) < earlyFrom {
		return before
	}
	var memory [samples]firstByte
	sorted := memory[:copy(memory[:], all)]
	slices.SortFunc(sorted, func(a, b firstByte) int { return cmp.Compare(a.tokens, b.tokens) })
	short, long := sorted[:len(sorted)/2], sorted[len(sorted)/2:]
	few, soon := fast(short)
	many, late := fast(long)
	if many < 1.5*few {
		return before // prompts of one length show nothing
	}
	if !before && late > earlyWithin {
		return false
	}
	grows, below := (late-soon)/(soon*(many/few-1)), constantBelow
	if before {
		below = constantAbove
	}
	return grows < below
}

func fast(all []firstByte) (tokens, seconds float64) {
	slices.SortFunc(all, func(a, b firstByte) int { return cmp.Compare(a.after, b.after) })
	all = all[(len(all)+3)/4 : (len(all)+1)/2]
	for _, s := range all {
		tokens += float64(s.tokens)
		seconds += max(s.after-step, time.Millisecond).Seconds()
	}
	return tokens / float64(len(all)), seconds / float64(len(all))
}

// event records a stream's first byte, which may precede its first token. lease.mu is held.
func (lease *Lease) event(after time.Duration) {
	if !lease.begun && lease.prompt != promptRead {
		lease.measure(after)
	}
	if !lease.begun {
		lease.first = after
	}
	lease.begun = true
}

// lease.mu is held.
func (lease *Lease) measure(after time.Duration) {
	// The backlog is only an estimate, so it must not be most of the tokens that the server read.
	if tokens := int64(lease.work.Tokens); lease.work.Measure && lease.load == lease.picked && lease.ahead <= tokens {
		lease.load.prefill.learn(lease.ahead+tokens, after)
	}
}
