package endpoint

import (
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// minRate and maxRate bound an inferred prefill rate, in tokens a second.
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

// Work describes a request as load of the server that gets it, and what the request can show about
// this server.
type Work struct {
	// Tokens counts the prompt's tokens that are not known to be cached.
	Tokens int
	// Rate is the prefill rate that the pick assumed, in tokens a second; 0 if unknown.
	Rate float64
	// Stream means that the server sends each token as soon as it is generated.
	Stream bool
	// Early means that the server may send the first byte before it has read the prompt.
	Early bool
	// Measure means that the time to the first byte shows the prefill rate.
	Measure bool
	// Generates means that the response has generated tokens. Without them, the response does not
	// show whether the server makes progress.
	Generates bool
	// First is the predicted time to the first token. Whole is the predicted time to the end of a
	// response that is not streamed. Both are 0 if unknown. Held is how long the picker held the
	// request before the pick.
	First, Whole, Held time.Duration
	// If First rests on an assumed rate, Slowest is the time to the first token at the lowest
	// plausible rate; otherwise 0. With Slowest set, past times to the first token of the servers
	// in Pool decide how long the server may send nothing. Prompt is the prompt's length in tokens,
	// including cached tokens; 0 if unknown.
	Slowest time.Duration
	Prompt  int
	Pool    *Snapshot
	// Adapter is the hash of the LoRA adapter that the request needs, or 0. Slots is the number of
	// adapters that the server holds at once.
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

// prefill estimates how many prompt tokens a server has yet to read. Q is the sum of the uncached
// tokens of all requests without a first byte. W is Q minus the tokens that the server has read by
// now, if it reads at its prefill rate. prefill stores W as the time when all tokens are read, so W
// falls without a timer.
type prefill struct {
	unread    atomic.Int64 // this process's share of Q
	confirmed atomic.Int64 // part of unread: a later access log entry showed that these prompts still wait
	elsewhere struct{ unread, confirmed atomic.Int64 }
	// readBy is when W becomes 0, in nanoseconds since processStart. It is valid only while Q > 0.
	readBy atomic.Int64
	rate   atomic.Uint64
	hint   atomic.Uint64 // rate from fewer samples than enough; bits of a float64; 0 if unknown
	hints  atomic.Int64
	mean   atomic.Uint64 // uncached tokens per request, over about meanOver requests; bits of a float64
	sent   atomic.Int64  // total nanoseconds that the server needs to read all prompts sent by this process so far

	mu     sync.Mutex
	rates  []float64
	firsts []firstByte
	count  int
	early  atomic.Bool // first bytes come after a constant time, so the server sends them before it reads prompts
	spans  spans
}

const (
	// meanOver is the number of requests over which prefill.mean averages. A prompt counts with at
	// most meanOver times the mean, so that no prompt more than doubles the mean.
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
	// A prompt counts in the mean only up to a limit: a prompt of millions of tokens would dominate
	// the mean, although the server probably denies such a prompt.
	mean, prompt := math.Float64frombits(p.mean.Load()), float64(tokens)
	if mean == 0 {
		prompt = min(prompt, firstMean)
		mean = prompt
	}
	// Of two concurrent updates one may be lost; the mean is only an estimate.
	p.mean.Store(math.Float64bits(mean + (min(prompt, meanOver*mean)-mean)/meanOver))
	return min(before, int64(float64(from-now)/1e9*w.Rate))
}

// extend adds further prompts to readBy. took is the time that the server needs to read them.
// readBy becomes at least now+reading. before is the number of tokens that were unread before. The
// result from is when the server begins to read the further prompts. Times are in nanoseconds.
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
	if p.count < enough { // with enough samples, this process keeps its own rate
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

// ring adds value to the ring buffer values, which holds at most size values, and returns the
// buffer. count is the number of values added before. The buffer grows with its values, because
// most servers of a large fleet are idle.
func ring[T any](values []T, count, size int, value T) []T {
	if len(values) < size {
		return append(values, value)
	}
	values[count%size] = value
	return values
}

// learn records the time from a request to its first token, and the tokens that the server read in
// that time. The rate is the 70th percentile of the last samples: most errors are requests that
// other clients' prompts delayed. While this percentile exceeds maxRate, the rate stays unknown:
// the server sends its first byte before it reads the prompt.
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
