package schedule

import (
	"math"
	"slices"
	"sync/atomic"

	"github.com/penstock-project/penstock/picker/endpoint"
	"github.com/penstock-project/penstock/picker/prefix"
)

// The strategy "load" compares endpoints by a cost in seconds: what a request would wait there, and
// what it would cost the requests after it. For a prompt of which the server lacks u tokens, and
// reads P tokens a second:
//
//	((1.5 + r/10 + E) u + clamp(W, C/2, Q)) / P + 20 ms x in flight + others + pressure + adapter
//
// Q are the uncached tokens of all requests that were sent there and of which no first token is
// reported, W the same less what the server has read since at its rate, C the part of Q that is
// known to wait. u counts more than once: a server that reads a prompt twice loses that time for
// all later requests, too. In simulations of eight servers at 70 % load with six workloads, TTFT
// p90 is 4.4 times as high without the prefix term, 1.5 times without the backlog, and 1.04 times
// (1.65 for the worst workload) without the 20 ms. A rate that is wrong by a factor of two changes
// it by 3 %.
//
// r are the requests there, of all senders, up to 30. While a server reads a prompt its steps are
// longer, so each response that it writes meanwhile is held up by u / P; that counts a tenth of a
// wait for a first token. So long prompts go where few responses run, and short or cached ones
// where many do. With u three times and no r, by simulation at 50, 70 and 90 % load, the mean time
// to the end of responses is 3 % longer (10 % on long conversations), and TTFT p90 of bursts of
// long prompts 2 to 5 %. The limit keeps a server that has a popular prefix from all requests for
// it while it runs as many as it can, and makes others wait for a place: without, and with u three
// times, TTFT p90 of a chat at 90 % load is ten times as long. With 40, the chat's capacity is 4 %
// less.
//
// E is how many tokens later requests read again because of one token that is read into a full
// cache (prefix.Server.Evicts): the mean of the servers whose caches are full, and 0 at one that
// has room. So a document is copied to a server that has room for it, and where all caches together
// hold each document once, requests wait for its server. By simulation of that with four servers
// whose rates are known, at 90 % load, TTFT p90 is 26 s, 38 s without E, and 51 s if each server
// has its own E: one that has lost its documents looks cheap, and gets the next one's. A prompt
// that no server has any more does not pay E at its former home, the server that had it last
// (prefix.Index.Former): what it evicts there made room for it before. Without that, such prompts
// move about and evict each other: by simulation of eight servers at 50 % load, TTFT p90 is 0.14 s
// instead of 0.07 s. A home whose own E is above the mean has more prompts than room: it pays the
// mean but for mean / E of it. If it pays nothing, four servers at 70 % load have a TTFT p90 of 3.3
// s instead of 0.99 s.
//
// Others are the requests that the server's page shows beyond those that are counted here: each
// waiting one a mean prompt, each running one 20 ms. Pressure is the share of the prompt that would
// be preempted, which is read again; it begins at 80 % of the KV cache. An adapter costs the time
// to load it, where it is not loaded, and more away from its homes (homes.go).
const (
	uncachedWeight = 1.5
	perHeldUp      = 0.1   // more, for each request there
	maxHeldUp      = 30    // requests
	perRequest     = 0.020 // seconds
	// defaultRate, in tokens a second, is assumed until there is a sample of some server's rate,
	// and defaultPrompt, in tokens, for a request whose prompt is not read until others' are.
	defaultRate   = 4000
	defaultPrompt = 512
	// leak is the part of P at which W shrinks. First tokens are reported up to 2 s late: a prompt
	// that is taken to be read too early is forgotten, and one that is taken to be read too late is
	// corrected by the report. By simulation at 70 and 90 % load, the geometric means of TTFT p90
	// are 1.40 and 3.43 s with half of P, 1.31 and 3.18 s with this, 1.30 and 4.21 s with all of
	// it.
	leak = 0.75
	// pressureFrom is the use of the KV cache above which a server preempts sequences to make room.
	pressureFrom = 0.8
)

// load is the scorer of the strategy. It keeps the means of the servers that have figures, for
// those that have none, from one pick to the next.
type load struct {
	rate, prompt atomic.Uint64 // bits of float64; 0: the default
	evicts       atomic.Uint64 // the same, of the servers whose caches are full; 0 without one
	adapters     adapters
}

// parts are a cost, in seconds.
type parts struct {
	prompt   float64 // to read what is not cached of the prompt, and to hold up others meanwhile
	evicted  float64 // to read again what the prompt evicts
	backlog  float64 // to read the prompts that were sent there before
	inFlight float64 // for the requests in flight
	others   float64 // for the requests of senders that are not counted here, by the server's page
	kv       float64 // to read again what would be preempted
	adapter  float64 // to load the LoRA adapter, and to do so away from its homes
}

func (p *parts) sum() float64 {
	return p.prompt + p.evicted + p.backlog + p.inFlight + p.others + p.kv + p.adapter
}

// means are sums over the servers that have figures.
type means struct{ rates, rate, prompts, prompt, full, evicts float64 }

func (m *means) add(s *endpoint.State) {
	if s.Evicts > 0 {
		m.full, m.evicts = m.full+1, m.evicts+s.Evicts
	}
	switch {
	case s.Rate > 0:
		m.rates, m.rate = m.rates+1, m.rate+s.Rate
	case s.Hint > 0:
		m.rates, m.rate = m.rates+s.HintWeight, m.rate+s.HintWeight*s.Hint
	}
	if s.Prompt > 0 {
		m.prompts, m.prompt = m.prompts+1, m.prompt+s.Prompt
	}
}

// learn keeps the means for the next pick.
func (l *load) learn(m *means) {
	if m.rates > 0 {
		l.rate.Store(math.Float64bits(m.rate / m.rates))
	}
	if m.prompts > 0 {
		l.prompt.Store(math.Float64bits(m.prompt / m.prompts))
	}
	l.evicts.Store(math.Float64bits(m.evicts / max(m.full, 1)))
}

func (l *load) assumedRate() float64 {
	if bits := l.rate.Load(); bits != 0 {
		return math.Float64frombits(bits)
	}
	return defaultRate
}

func (l *load) assumedPrompt() float64 {
	if bits := l.prompt.Load(); bits != 0 {
		return math.Float64frombits(bits)
	}
	return defaultPrompt
}

// readWeight is how many times the time counts in which a server reads a prompt.
func readWeight(s *endpoint.State) float64 {
	there := float64(s.InFlight)
	if s.Fresh {
		there += s.OthersRunning
	}
	return uncachedWeight + perHeldUp*min(there, maxHeldUp)
}

// hinted returns the rate of a server with few samples: between the assumed rate and the rate by
// the samples, by their number. So the faster of two idle servers gets the prompts from its first
// samples on, and a server whose first request took long, as after its start, is not as slow as
// that.
func hinted(assumed float64, s *endpoint.State) float64 {
	if s.Hint <= 0 {
		return assumed
	}
	return assumed * math.Pow(s.Hint/assumed, s.HintWeight)
}

// of returns an endpoint's cost, and sets what its Work needs.
func (l *load) of(r *Request, s *endpoint.State, c *Candidate) (p parts) {
	tokens, prompt := float64(r.Tokens), s.Prompt
	if prompt == 0 {
		prompt = l.assumedPrompt()
	}
	if r.Tokens <= 0 {
		tokens = l.assumedPrompt()
	}
	c.RateFrom = s.RateFrom
	if c.Rate = s.Rate; c.Rate == 0 {
		c.Rate = hinted(l.assumedRate(), s)
	}
	perToken := 1 / c.Rate
	c.uncached = max(tokens-float64(c.Cached), 0)
	read := readWeight(s)
	p.prompt = read * c.uncached * perToken
	c.weight = read
	if s.Evicts > 0 {
		evicts := math.Float64frombits(l.evicts.Load())
		p.evicted = evicts * max(c.uncached-c.returns, 0) * perToken
		c.weight += evicts
		c.evicts = evicts
	}
	p.inFlight = perRequest * float64(s.InFlight)
	if s.Unread > 0 {
		p.backlog = min(max(s.Reading, float64(s.Confirmed)/2*perToken), float64(s.Unread)*perToken)
	}
	// Another sender's queue looks like a slow server, and so does a queue of ours that is longer
	// than was believed.
	known := r.Responses && c.Endpoint.FirstEventIsEarly()
	c.early = r.Stream && (known || s.Early)
	c.measure = r.Stream && !known && r.Tokens > 0 && s.OthersQueue*prompt <= c.uncached && (s.Queue == 0 || !s.Fresh)
	if s.Fresh {
		p.others = s.OthersQueue*prompt*perToken + perRequest*s.OthersRunning
		if over := s.KV - pressureFrom; over > 0 {
			p.kv = read * min(over/(1-pressureFrom), 1) * tokens * perToken
		}
	}
	if c.slots = assumedSlots; s.Adapters != nil {
		c.slots = s.Adapters.Max
	}
	p.adapter = l.adapters.cost(r.Model, s, c)
	c.ahead = p.backlog + s.OthersQueue*prompt*perToken + p.adapter
	if c.loads {
		p.adapter += c.away // the server may well have a slot, so nothing is predicted to wait for that
	}
	return p
}

// sendBack takes from the cost of a prompt's former home what the prompt would evict there, or a
// part of it where that server lacks room more than the mean does. c are matched.
func (l *load) sendBack(prefixes *prefix.Index, chain prefix.Chain, c []Candidate, scratch *Scratch) {
	if l.evicts.Load() == 0 {
		return // all have room
	}
	home, until, ok := prefixes.Former(chain, int(slices.Max(scratch.cached)), scratch.servers)
	if !ok {
		return
	}
	h := &c[home]
	h.returns = min(max(float64(until-h.Cached), 0), h.uncached)
	if own := scratch.servers[home].Evicts(); own > h.evicts {
		h.returns *= h.evicts / own
	}
	h.Cost -= h.evicts * h.returns / h.Rate
}

func (l *load) cost(r *Request, s *endpoint.State, c *Candidate) float64 {
	p := l.of(r, s, c)
	return p.sum()
}

func (l *load) explain(r *Request, s *endpoint.State, c *Candidate) map[string]float64 {
	p := l.of(r, s, c)
	return map[string]float64{"prompt": p.prompt, "evicted": p.evicted, "backlog": p.backlog, "in-flight": p.inFlight,
		"others": p.others, "kv-cache": p.kv, "adapter": p.adapter}
}
