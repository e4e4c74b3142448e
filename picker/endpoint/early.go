package endpoint

import (
	"cmp"
	"slices"
	"time"
)

// Some servers send a first event before they read the prompt. The time to their first byte shows
// nothing about their prefill rate. This file detects these servers.

// FirstEventIsEarly reports whether e's engine begins a stream of OpenAI's Responses API before it
// has read the prompt, as vLLM does.
func (e *Endpoint) FirstEventIsEarly() bool { return e.earlyEvents }

// If a server reads the prompt before it sends the first byte, the time to the first byte grows in
// proportion to the prompt's length. A server's times count as constant once they grow by less than
// constantBelow of this proportion, and until they grow by more than constantAbove of it. Both
// decisions need earlyFrom samples. Times do not become constant while they exceed earlyWithin
// seconds, because they then show a queue.
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

// constant reports whether the time to the first byte does not depend on the prompt's length;
// before is its last result. It compares the shorter half of the prompts with the longer half. Of
// each half it uses the second fastest quarter: the fastest prompts may be cached, and the slower
// ones may wait for other requests.
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
		return before // prompts of similar length do not show whether the time grows
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

// The caller holds lease.mu.
func (lease *Lease) event(after time.Duration) {
	if !lease.begun && lease.prompt != promptRead {
		lease.measure(after)
	}
	if !lease.begun {
		lease.first = after
	}
	lease.begun = true
}

// The caller holds lease.mu.
func (lease *Lease) measure(after time.Duration) {
	// The number of tokens ahead of the prompt is an estimate, so it must not exceed the prompt.
	if tokens := int64(lease.work.Tokens); lease.work.Measure && lease.load == lease.picked && lease.ahead <= tokens {
		lease.load.prefill.learn(lease.ahead+tokens, after)
	}
}
