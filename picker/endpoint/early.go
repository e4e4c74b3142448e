package endpoint

import (
	"cmp"
	"slices"
	"time"
)

// Some servers send an event before they read the prompt, so their first byte is not the first
// token.

// FirstEventIsEarly reports whether e's engine begins a stream of OpenAI's Responses API before it
// has read the prompt, as vLLM does.
func (e *Endpoint) FirstEventIsEarly() bool { return e.earlyEvents }

// If a server reads prompts first, the time to the first byte grows in proportion to the prompt.
// Times become constant when they grow by less than constantBelow of this proportion. They stay
// constant until they grow by more than constantAbove of it. Both need earlyFrom samples. Times
// above earlyWithin seconds that look constant come from a queue.
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

// constant compares the shorter prompts with the longer prompts, by the second fastest quarter of
// each half: the fastest prompts may be cached, and slower prompts wait for other requests.
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

// lease.mu is held.
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
	// Learn only if the backlog is at most as long as the prompt, because the backlog is an
	// estimate.
	if tokens := int64(lease.work.Tokens); lease.work.Measure && lease.load == lease.picked && lease.ahead <= tokens {
		lease.load.prefill.learn(lease.ahead+tokens, after)
	}
}
