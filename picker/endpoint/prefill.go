package endpoint

import (
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Limits of the inferred prefill rate, in tokens a second.
const (
	minRate = 100
	maxRate = 200_000
)

const (
	// learnFrom is the minimum number of tokens in a sample of the prefill rate. With fewer tokens,
	// the time to the first byte is mostly one step of the engine.
	learnFrom = 256
	// step is the shortest possible time from a request to its first token.
	step            = 20 * time.Millisecond
	samples, enough = 31, 5
)

// Work is the cost of a request for its server.
type Work struct {
	// Tokens counts the prompt's tokens that are not known to be cached.
	Tokens int
	// Rate is the prefill rate that the pick assumed, in tokens a second; 0 if unknown.
	Rate float64
	// Stream means that the server sends each token at once.
	Stream bool
	// Early means that the server may send the first byte before it reads the prompt.
	Early bool
	// Measure means that the time to the first byte shows the prefill rate.
	Measure bool
	// Generates means that the server generates tokens, unlike for embeddings. Only these requests
	// show whether the server makes progress.
	Generates bool
	// First is the predicted time to the first token, and Whole to the end of a response that is
	// not streamed; 0 if unknown. Held is how long the picker held the request.
	First, Whole, Held time.Duration
	// Slowest is the time to the first token at the lowest plausible rate. It is set if the
	// server's rate is unknown, so that First is a guess. Past times to the first token of the
	// servers in Pool then decide when the server counts as silent. Prompt is the prompt's length
	// in tokens, with cached tokens; 0 if unknown.
	Slowest time.Duration
	Prompt  int
	Pool    *Snapshot
	// Adapter is the hash of the request's LoRA adapter; 0 for none. Slots is how many adapters the
	// server can hold.
	Adapter  uint64
	Slots    int
	Features Features
	// TokenBytes is the size of a token in a streamed response, and MaxTokens the maximum number of
	// tokens; 0 if unknown.
	TokenBytes, MaxTokens int
	// Trial marks a request that tests a suspect server, or that measures a server's speed again. A
	// server has at most one such request in flight.
	Trial bool
	// Relearn means that the request measures the server's speed again (Endpoint.Outdated).
	Relearn bool
}

// prefill estimates a server's backlog. Q is the sum of the uncached tokens of all requests without
// a first byte. W is Q minus the tokens that the server, at its rate, has read by now. W falls with
// time, so readBy stores when W becomes 0.
type prefill struct {
	unread    atomic.Int64 // this process's part of Q
	confirmed atomic.Int64 // the part of unread whose prompts still wait by a report
	elsewhere struct{ unread, confirmed atomic.Int64 }
	// readBy is when W becomes 0, in nanoseconds since processStart. It is valid only while Q > 0.
	readBy atomic.Int64
	rate   atomic.Uint64
	hint   atomic.Uint64 // rate from fewer samples than enough, as bits of a float64; 0 if unknown
	hints  atomic.Int64
	mean   atomic.Uint64 // uncached tokens per request, over about meanOver requests, as bits of a float64
	sent   atomic.Int64  // total time that the server takes for this process's prompts so far, in nanoseconds

	mu     sync.Mutex
	rates  []float64
	firsts []firstByte
	count  int
	early  atomic.Bool // first bytes are early events: the time to the first byte is constant
	spans  spans
}

const (
	// meanOver is the window of prefill.mean, in requests. A prompt counts with at most meanOver
	// times the mean, so that it at most doubles the mean. The first prompt counts with at most
	// firstMean tokens.
	meanOver  = 32
	firstMean = 4096
)

func (p *prefill) begin(w Work, now int64) (ahead int64) {
	tokens := int64(w.Tokens)
	if tokens <= 0 || w.Rate <= 0 {
		return 0
	}
	before := p.unread.Add(tokens) - tokens + p.elsewhere.unread.Load()
	took := int64(float64(tokens) / w.Rate * 1e9)
	p.sent.Add(took)
	from := p.extend(took, 0, before, now)
	// Otherwise one prompt of millions of tokens, which the server probably rejects, would dominate
	// the mean.
	mean, prompt := math.Float64frombits(p.mean.Load()), float64(tokens)
	if mean == 0 {
		prompt = min(prompt, firstMean)
		mean = prompt
	}
	// A concurrent update may get lost, which is harmless.
	p.mean.Store(math.Float64bits(mean + (min(prompt, meanOver*mean)-mean)/meanOver))
	return min(before, int64(float64(from-now)/1e9*w.Rate))
}

// extend moves readBy later by took, the server's time for further prompts, and at least to
// now+reading. It returns when the server begins these prompts. Times are in nanoseconds. before
// counts the unread tokens before the further prompts.
func (p *prefill) extend(took, reading, before, now int64) (from int64) {
	for {
		old := p.readBy.Load()
		if from = max(old, now); before <= 0 {
			from = now
		}
		if p.readBy.CompareAndSwap(old, max(from+took, now+reading)) {
			return from
		}
	}
}

func (p *prefill) setElsewhere(e Elsewhere, now int64) {
	before := p.unread.Load() + p.elsewhere.unread.Swap(e.Unread)
	p.elsewhere.confirmed.Store(e.Confirmed)
	if e.Sent > 0 || e.Reading > 0 {
		p.extend(int64(e.Sent), int64(e.Reading), before, now)
	}
	if e.Rate <= 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.count < enough { // with enough own samples, the peers' rate does not count
		p.rate.Store(math.Float64bits(min(max(e.Rate, minRate), maxRate)))
	}
}

func (p *prefill) learned() float64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.count < enough {
		return 0
	}
	return math.Float64frombits(p.rate.Load())
}

func (p *prefill) read(s *State, now int64) {
	s.Rate, s.Prompt = math.Float64frombits(p.rate.Load()), math.Float64frombits(p.mean.Load())
	s.Early = p.early.Load()
	s.Hint, s.HintWeight = 0, 0
	if s.Rate == 0 {
		s.Hint = math.Float64frombits(p.hint.Load())
		s.HintWeight = float64(p.hints.Load()) / enough
	}
	s.Reading, s.Confirmed = 0, 0
	if s.Unread = p.unread.Load() + p.elsewhere.unread.Load(); s.Unread > 0 {
		s.Reading = float64(max(0, p.readBy.Load()-now)) / 1e9
		s.Confirmed = p.confirmed.Load() + p.elsewhere.confirmed.Load()
	}
}

func (p *prefill) end(tokens int64, confirmed bool) {
	p.unread.Add(-tokens)
	if confirmed {
		p.confirmed.Add(-tokens)
	}
}

// ring adds a value to a ring buffer of this size. count is the number of earlier values. Memory
// grows only with the values, because most servers of a large fleet are idle.
func ring[T any](values []T, count, size int, value T) []T {
	if len(values) < size {
		return append(values, value)
	}
	values[count%size] = value
	return values
}

// learn records the time from a request to its first token, and the tokens that the server read in
// this time. The rate is the 70th percentile of the last samples, because prompts of other clients
// delay some requests. The rate stays unknown while the percentile is above maxRate, or if the
// server sends early events.
func (p *prefill) learn(tokens int64, after time.Duration) {
	if tokens < learnFrom || after <= 0 {
		return
	}
	rate := math.Inf(1)
	if after > step {
		rate = float64(tokens) / (after - step).Seconds()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rates = ring(p.rates, p.count, samples, rate)
	p.firsts = ring(p.firsts, p.count, samples, firstByte{tokens, after})
	p.count++
	n := len(p.rates)
	var memory [samples]float64
	sorted := memory[:copy(memory[:], p.rates)]
	slices.Sort(sorted)
	learned := max(sorted[n*7/10], minRate)
	p.early.Store(constant(p.firsts, p.early.Load()))
	if learned > maxRate || p.early.Load() {
		learned = 0
	}
	if n < enough {
		p.hint.Store(math.Float64bits(learned))
		p.hints.Store(int64(n))
		return
	}
	p.rate.Store(math.Float64bits(learned))
}
