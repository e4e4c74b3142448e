package endpoint

import (
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// The inferred prefill rate is limited, in tokens a second.
const (
	minRate = 100
	maxRate = 200_000
)

const (
	// learnFrom is the minimum number of tokens in a sample. With fewer tokens, the time to the
	// first byte is mostly one step of the engine.
	learnFrom = 256
	// step is the shortest possible time from a request to its first token.
	step            = 20 * time.Millisecond
	samples, enough = 31, 5
)

// Work describes the cost of a request for the server that gets it.
type Work struct {
	// Tokens counts the prompt's tokens that are not known to be cached.
	Tokens int
	// Rate is the prefill rate that the pick assumed, in tokens a second, or 0.
	Rate float64
	// Stream means that the server sends each token at once.
	Stream bool
	// Early means that the first byte may precede the reading of the prompt.
	Early bool
	// Measure means that the time to the first byte shows the prefill rate.
	Measure bool
	// Generates means that the response has tokens. Requests of other APIs show no progress.
	Generates bool
	// First is the predicted time to the first token, or 0. Whole is the predicted time to the end
	// of a response that is not streamed, or 0. Held is how long the picker held the request.
	First, Whole, Held time.Duration
	// If First assumes a rate, Slowest is the time to the first token at the lowest plausible rate.
	// The first tokens of the servers in Pool then decide whether the server is silent. Prompt is
	// the prompt's length in tokens, including cached tokens, or 0.
	Slowest time.Duration
	Prompt  int
	Pool    *Snapshot
	// Adapter is the hash of the LoRA adapter that the request needs, or 0. Slots is the number of
	// adapters that fit.
	Adapter  uint64
	Slots    int
	Features Features
	// TokenBytes is the size of a token in a streamed response, and MaxTokens the maximum number of
	// tokens; 0 if unknown.
	TokenBytes, MaxTokens int
	// Trial marks a request that tests a suspect server, or that measures a server's speed again. A
	// server has at most one trial in flight.
	Trial bool
	// Relearn means that the request measures the server's speed again (Endpoint.Outdated).
	Relearn bool
}

// Q sums up the uncached tokens of all requests without a first byte. W is Q minus the tokens that
// the server, at its rate, has read by now. W is stored as the time at which all tokens are read,
// so it needs no timer.
type prefill struct {
	unread    atomic.Int64 // this process's part of Q
	confirmed atomic.Int64 // part of unread: a report showed that these prompts still wait
	elsewhere struct{ unread, confirmed atomic.Int64 }
	// readBy is the time, since processStart, when W becomes 0. It is valid only while Q > 0.
	readBy atomic.Int64
	rate   atomic.Uint64
	hint   atomic.Uint64 // the rate, from fewer samples than enough
	hints  atomic.Int64
	mean   atomic.Uint64 // uncached tokens per request, over about meanOver requests; bits of a float64
	sent   atomic.Int64  // nanoseconds that the server needs for all prompts of this process

	mu     sync.Mutex
	rates  []float64
	firsts []firstByte
	count  int
	early  atomic.Bool // first bytes come after a constant time, so they are early
	spans  spans
}

const (
	// meanOver is the window of prefill.mean, in requests. It also bounds a prompt as a multiple of
	// the mean, so that no prompt more than doubles the mean.
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
	// A prompt of millions of tokens would dominate the mean, although the server probably denies
	// it.
	mean, prompt := math.Float64frombits(p.mean.Load()), float64(tokens)
	if mean == 0 {
		prompt = min(prompt, firstMean)
		mean = prompt
	}
	// One of two concurrent updates may be lost.
	p.mean.Store(math.Float64bits(mean + (min(prompt, meanOver*mean)-mean)/meanOver))
	return min(before, int64(float64(from-now)/1e9*w.Rate))
}

// extend adds took, the server's time for further prompts, to readBy, which becomes at least
// now+reading. Times are in nanoseconds. before is the number of unread tokens so far. The result
// from is when the server begins to read the further prompts.
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
	if p.count < enough { // once it has enough samples, this process uses its own rate
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

// ring adds a value to a ring of this size. The ring grows with its values, because most servers of
// a large fleet are idle. count is the number of earlier values.
func ring[T any](values []T, count, size int, value T) []T {
	if len(values) < size {
		return append(values, value)
	}
	values[count%size] = value
	return values
}

// learn records the time from a request to its first token, and the tokens that the server read in
// that time. The rate is the 70th percentile of the last samples: most errors are requests that
// other clients' prompts delayed. No rate is learned while the percentile is above the limit, as
// with early events.
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
