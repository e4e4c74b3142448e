package endpoint

import (
	"cmp"
	"slices"
	"time"
)

// Some servers send an event before they have read the prompt: then the first byte is no first
// token. Where this is known of an engine and an API, or seen because the first byte comes after a
// constant time, whatever the length of the prompt, first bytes end no backlog and show no rate.

// FirstEventIsEarly reports whether e's engine begins a stream of OpenAI's Responses API before it
// has read the prompt. vLLM does, to which unknown engines belong.
func (e *Endpoint) FirstEventIsEarly() bool { return e.earlyEvents }

// earlyFrom is how many samples show whether first bytes come after a constant time. They do if
// the time grows by less than constantBelow of what it grows by where a server reads the prompt
// before, until it grows by constantAbove. An event that precedes the reading of its prompt
// precedes its wait in the engine, too: later than earlyWithin, in seconds, what looks constant is
// a queue.
const (
	earlyFrom     = 16
	constantBelow = 0.1
	constantAbove = 0.3
	earlyWithin   = 0.5
)

// firstByte is a sample of the times to first bytes.
type firstByte struct {
	tokens int64
	after  time.Duration
}

// constant reports whether the times to first bytes do not depend on the lengths of prompts. was is
// the result before. It compares the shorter half of the prompts with the longer half, by the
// second fastest quarter of each: slower ones wait for an adapter, or behind other senders'
// prompts, and the fastest may be cached.
func constant(all []firstByte, was bool) bool {
	if len(all) < earlyFrom {
		return was
	}
	var memory [samples]firstByte
	sorted := memory[:copy(memory[:], all)]
	slices.SortFunc(sorted, func(a, b firstByte) int { return cmp.Compare(a.tokens, b.tokens) })
	short, long := sorted[:len(sorted)/2], sorted[len(sorted)/2:]
	few, soon := fast(short)
	many, late := fast(long)
	if many < 1.5*few {
		return was // prompts of one length show nothing
	}
	if !was && late > earlyWithin {
		return false
	}
	grows, below := (late-soon)/(soon*(many/few-1)), constantBelow
	if was {
		below = constantAbove
	}
	return grows < below
}

// fast returns the mean number of tokens of the second fastest quarter, and their mean time beyond
// a step, in seconds.
func fast(of []firstByte) (tokens, seconds float64) {
	slices.SortFunc(of, func(a, b firstByte) int { return cmp.Compare(a.after, b.after) })
	of = of[(len(of)+3)/4 : (len(of)+1)/2]
	for _, s := range of {
		tokens += float64(s.tokens)
		seconds += max(s.after-step, time.Millisecond).Seconds()
	}
	return tokens / float64(len(of)), seconds / float64(len(of))
}

// event records the first byte of a stream that may precede its first token. lease.mu is held.
func (lease *Lease) event(after time.Duration) {
	if !lease.begun && lease.prompt != promptRead {
		lease.measure(after)
	}
	if !lease.begun {
		lease.first = after
	}
	lease.begun = true
}

// measure learns from the time to a first byte. lease.mu is held.
func (lease *Lease) measure(after time.Duration) {
	// The backlog is an estimate: it must not be most of what the server is taken to have read.
	if tokens := int64(lease.work.Tokens); lease.work.Measure && lease.load == lease.picked && lease.ahead <= tokens {
		lease.load.prefill.learn(lease.ahead+tokens, after)
	}
}
