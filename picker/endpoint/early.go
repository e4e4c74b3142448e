package endpoint

import (
	"cmp"
	"slices"
	"time"
)

// Some servers send an early event before they read the prompt. Their first byte is then not the
// first token.

// FirstEventIsEarly reports whether the engine begins a stream of OpenAI's Responses API before it
// has read the prompt, as vLLM does.
func (e *Endpoint) FirstEventIsEarly() bool { return e.earlyEvents }

// These constants decide whether a server sends early events. For a server that reads the prompt
// first, the time to the first byte is proportional to the prompt's length. Times become constant
// when they grow by less than constantBelow of this proportion, and variable again when they grow
// by more than constantAbove of it. A decision needs earlyFrom samples. Constant times above
// earlyWithin seconds do not count: the requests waited in a queue.
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

// constant reports whether the times to the first byte are independent of the prompts' length. It
// compares the shorter half of the prompts with the longer half. Of each half it uses the second
// fastest quarter: the fastest prompts may be cached, and slower ones may wait for other requests.
// before is the last result.
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
		return before // prompts of similar lengths show nothing
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
	// The backlog before the prompt is only an estimate. It must not exceed the prompt's tokens.
	if tokens := int64(lease.work.Tokens); lease.work.Measure && lease.load == lease.picked && lease.ahead <= tokens {
		lease.load.prefill.learn(lease.ahead+tokens, after)
	}
}
