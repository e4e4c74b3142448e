package schedule

import (
	"math"
	"slices"
	"sync/atomic"

	"github.com/penstock-project/penstock/picker/endpoint"
	"github.com/penstock-project/penstock/picker/prefix"
)

// The strategy "load" compares endpoints by a cost in seconds: how long the request would wait, and
// how much it would delay later requests. For a prompt with u uncached tokens at a server that
// reads P tokens a second, the cost is
//
//	((1.5 + r/10 + E) u + clamp(W, C/2, Q)) / P + 20 ms x in flight + others + pressure + adapter
//
// The factor on u is above 1, because reading a prompt that another server has cached also delays
// all later requests. r counts the server's requests, of all clients, up to 30, because each
// running response waits while the server reads a prompt. Q counts the uncached tokens of the
// server's requests that wait for their first token. W is Q minus the tokens that the server, at
// its rate, should have read by now. C is the part of Q that is known to wait.
//
// E is how many evicted tokens a server with a full cache must later read again for each token that
// it reads now: the mean of prefix.Server.Evicts over the servers with full caches. At a server
// whose cache is not full, E is 0. E is not each server's own Evicts, because a server that lost
// its documents would then look cheap. If no server caches a prompt any more, E is 0 at its former
// home, the last server that cached it (prefix.Index.Former), because its eviction made room there.
// But if the former home's Evicts is above the mean, E applies to the part 1 - mean / Evicts of the
// prompt's tokens.
//
// Others is the cost of other clients' requests, which the server's metrics page shows. Pressure is
// the cost of the part of the prompt that the server would probably preempt and read again. Adapter
// is the time to load the adapter (homes.go).
const (
	uncachedWeight = 1.5
	perHeldUp      = 0.1 // additional weight for each request at the server
	maxHeldUp      = 30  // requests above this number do not count
	// PerRequest is the cost of a request in flight, in seconds.
	PerRequest = 0.020
	// defaultRate is the assumed rate of all servers, in tokens a second, until the rate of one is
	// known. defaultPrompt is the assumed length of prompts, in tokens, until some were read.
	defaultRate   = 4000
	defaultPrompt = 512
	// leak times P is the rate at which W shrinks. leak is below 1, because nothing corrects W if
	// it shrinks too early. In simulations at 90 % load, TTFT p90 is 3.18 s with this leak, and
	// 4.21 s with 1.
	leak = 0.75
	// pressureFrom is the KV cache usage above which a server preempts sequences.
	pressureFrom = 0.8
)

// load is the scorer of the strategy "load". It keeps means over the servers from pick to pick, as
// assumptions about servers whose own figures are unknown.
type load struct {
	rate, prompt atomic.Uint64 // bits of float64; 0 means the default
	evicts       atomic.Uint64 // bits of float64
	adapters     adapters
}

// parts are the parts of a cost, in seconds.
type parts struct {
	prompt   float64 // cost of reading the uncached prompt, including the delay of other requests
	evicted  float64 // cost of reading evicted tokens again
	backlog  float64
	inFlight float64
	others   float64 // cost of other clients' requests, which the metrics page shows
	kv       float64 // cost of reading the preempted part of the prompt again
	// adapter is the cost of loading the LoRA adapter. It is higher at servers that are not homes.
	adapter float64
}

func (p *parts) sum() float64 {
	return p.prompt + p.evicted + p.backlog + p.inFlight + p.others + p.kv + p.adapter
}

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

func readWeight(s *endpoint.State) float64 {
	there := float64(s.InFlight)
	if s.Fresh {
		there += s.OthersRunning
	}
	return uncachedWeight + perHeldUp*min(there, maxHeldUp)
}

// hinted returns the rate of a server with few samples: a weighted mean of the assumed and the
// sampled rate. A single slow request, as after the server's start, must have little weight.
func hinted(assumed float64, s *endpoint.State) float64 {
	if s.Hint <= 0 {
		return assumed
	}
	return assumed * math.Pow(s.Hint/assumed, s.HintWeight)
}

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
	p.inFlight = PerRequest * float64(s.InFlight)
	p.backlog = s.Backlog(c.Rate)
	// c.measure is false while requests queue at the server, because their wait would make the
	// server look slow.
	known := r.Responses && c.Endpoint.FirstEventIsEarly()
	c.early = r.Stream && (known || s.Early)
	c.measure = r.Stream && !known && r.Tokens > 0 && s.OthersQueue*prompt <= c.uncached && (s.Queue == 0 || !s.Fresh)
	if s.Fresh {
		p.others = s.OthersQueue*prompt*perToken + PerRequest*s.OthersRunning
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
		p.adapter += c.away // not in c.ahead: away is a preference, no predicted wait
	}
	return p
}

// sendBack lowers the cost of a prompt at its former home, the last server that cached it: there,
// the prompt's former tokens, or a part of them, cost no evictions. c[i].Cached must be set.
func (l *load) sendBack(prefixes *prefix.Index, chain prefix.Chain, c []Candidate, scratch *Scratch) {
	if l.evicts.Load() == 0 {
		return
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
