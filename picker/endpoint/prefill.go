package endpoint

import (
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Limits of the learned prefill rate, in tokens a second: from a small model on a CPU to a large
// fleet of accelerators.
const (
	minRate = 100
	maxRate = 200_000
)

const (
	// learnFrom is the least number of tokens from which a rate is computed: with fewer, the time
	// to the first byte is mostly the length of one step of the engine.
	learnFrom = 256
	// step is the shortest time from a request to its first token, whatever its prompt.
	step = 20 * time.Millisecond
	// samples is how many rates a server's own is learned from, and enough how many it needs.
	samples, enough = 31, 5
)

// Work is what a request asks of the server that it is sent to.
type Work struct {
	// Tokens of the prompt that the server has not cached, as far as it is known.
	Tokens int
	// Rate is the prefill rate by which the pick was decided, in tokens a second; 0: not by
	// prompts.
	Rate float64
	// Stream means that the server sends each token as soon as it has it, so that the first byte
	// shows the end of prefill.
	Stream bool
	// Early means that the server may send the first byte before it has read the prompt.
	Early bool
	// Measure means that the time to the first byte shows the server's prefill rate.
	Measure bool
	// Generates means that the answer has tokens: requests of other APIs show nothing about
	// progress.
	Generates bool
	// First is the predicted time to the first token, and Whole to the end of an answer that is not
	// streamed; 0: unknown. Held is how long the request was held before it was sent.
	First, Whole, Held time.Duration
	// Slowest is the time to the first token at the least rate that servers have, if First is by an
	// assumed rate; else 0. Then first tokens of the servers of Pool decide whether the server is
	// silent, by the length of the Prompt in tokens, without what is known to be cached; 0:
	// unknown.
	Slowest time.Duration
	Prompt  int
	Pool    *Snapshot
	// Adapter is the hash of the LoRA adapter that it needs, 0 for none, of which the server has
	// room for Slots.
	Adapter uint64
	Slots   int
	// Features that its latency was predicted by; zero: it is not learned from.
	Features Features
	// TokenBytes is how many bytes of a streamed response each token takes, and MaxTokens the most
	// that it has; 0: not known.
	TokenBytes, MaxTokens int
	// Trial means that the server is suspect, or that the request shows its speed again: at most
	// one such request is in flight there.
	Trial bool
	// Relearn means that the request shows the server's speed again: see Endpoint.Outdated.
	Relearn bool
}

// prefill accounts for the prompts that were sent to a server and that it has not read, and learns
// how fast it reads them.
//
// Q is the sum of the uncached tokens of all requests without a first byte. W is the same, less
// what the server has read since at its rate. W is kept as the time at which all is read: so adding
// a prompt and reading W are one atomic operation each, and W needs no timer.
type prefill struct {
	unread    atomic.Int64                             // the part of Q that this process has sent
	confirmed atomic.Int64                             // the part of it that a report has shown to wait
	elsewhere struct{ unread, confirmed atomic.Int64 } // those of peers
	// when W is 0, in nanoseconds since processStart; holds only while Q > 0
	readBy atomic.Int64
	rate   atomic.Uint64
	hint   atomic.Uint64 // the rate by fewer samples than enough
	hints  atomic.Int64  // how many
	mean   atomic.Uint64 // of the uncached tokens of a request, over the last meanOver or so; bits of a float64
	sent   atomic.Int64  // nanoseconds that the server takes for all that this process has sent

	mu     sync.Mutex
	rates  [samples]float64   // a ring
	firsts [samples]firstByte // another one
	count  int
	early  atomic.Bool // first bytes come after a constant time
	spans  spans
}

const (
	// meanOver is over how many requests or so prefill.mean is, and how many times the mean a
	// prompt counts at most: so none doubles it.
	meanOver = 32
	// firstMean is the most, in tokens, that it begins with.
	firstMean = 4096
)

// begin accounts for a prompt. It returns how many tokens the server reads before it.
func (p *prefill) begin(w Work, now int64) (ahead int64) {
	tokens := int64(w.Tokens)
	if tokens <= 0 || w.Rate <= 0 {
		return 0
	}
	before := p.unread.Add(tokens) - tokens + p.elsewhere.unread.Load()
	took := int64(float64(tokens) / w.Rate * 1e9)
	p.sent.Add(took)
	from := p.extend(took, 0, before, now)
	// A prompt of millions of tokens, which the server may well deny, would be the mean for
	// hundreds of requests.
	mean, prompt := math.Float64frombits(p.mean.Load()), float64(tokens)
	if mean == 0 {
		prompt = min(prompt, firstMean)
		mean = prompt
	}
	// one of two concurrent updates may be lost
	p.mean.Store(math.Float64bits(mean + (min(prompt, meanOver*mean)-mean)/meanOver))
	return min(before, int64(float64(from-now)/1e9*w.Rate))
}

// extend adds to W what the server takes for further prompts, and makes it at least reading, in
// nanoseconds. before are the unread tokens so far. It returns when the server begins with the
// further ones.
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

// setElsewhere accounts for the prompts of peers.
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
	if p.count < enough { // this process learns from its own requests once it has some
		p.rate.Store(math.Float64bits(min(max(e.Rate, minRate), maxRate)))
	}
}

// learned returns the rate that this process has learned itself; 0: none.
func (p *prefill) learned() float64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.count < enough {
		return 0
	}
	return math.Float64frombits(p.rate.Load())
}

// read sets s to what is known at a moment.
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

// end accounts for the first token of a prompt, or for the end of its request.
func (p *prefill) end(tokens int64, confirmed bool) {
	p.unread.Add(-tokens)
	if confirmed {
		p.confirmed.Add(-tokens)
	}
}

// learn takes the time from a request to its first token, and how many tokens the server has read
// in it.
//
// The rate is the 70th percentile of the last samples, so a few slow or lying requests do not
// change it. It is not the median, because most errors are slow: requests that other senders'
// prompts held up. A server that sends an event before it has read the prompt shows rates above the
// limit; while these are the percentile, none is learned.
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
	p.rates[p.count%samples], p.firsts[p.count%samples] = rate, firstByte{tokens, after}
	p.count++
	n := min(p.count, samples)
	sorted := p.rates
	slices.Sort(sorted[:n])
	learned := max(sorted[n*7/10], minRate)
	p.early.Store(constant(p.firsts[:n], p.early.Load()))
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
