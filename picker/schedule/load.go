package schedule

import (
	"math"
	"slices"
	"sync/atomic"

	"github.com/penstock-project/penstock/picker/endpoint"
	"github.com/penstock-project/penstock/picker/prefix"
)

// The strategy "load" compares endpoints by a cost in seconds: the request's wait, and how much it
// delays later requests. For a prompt with u uncached tokens at a server that reads P tokens a
// second, the cost is
//
//	((1.5 + r/10 + E) u + clamp(W, C/2, Q)) / P + 20 ms x in flight + others + pressure + adapter
//
// The factor on u is above 1, because reading the prompt also delays all later requests. r counts
// the server's requests, of all clients, up to 30: each running response waits while the server
// reads a prompt. Q counts the uncached tokens of the server's requests that wait for their first
// token. W is Q minus the tokens that the server, at its rate, should have read by now. C is the
// part of Q that is known to wait.
//
// E is how many evicted tokens a server with a full cache must later read again for each token that
// it reads now: the mean of prefix.Server.Evicts over the servers with full caches, and 0 for other
// servers. A server's own Evicts does not serve as E: a server that lost its documents would look
// cheap. If no server caches a prompt any longer, E is 0 at its former home, the last server that
// cached it (prefix.Index.Former), because its eviction made room there. But if the former home's
// Evicts is above the mean, E applies to the part 1 - mean / Evicts of the prompt's tokens.
//
// "others" is the cost of other clients' requests, by the server's metrics page. "pressure" is the
// cost of the part of the prompt that the server would probably preempt and read again. "adapter"
// is the time to load the adapter (homes.go).
const (
	uncachedWeight = 1.5
	perHeldUp      = 0.1 // added to the weight for each request at the server
	maxHeldUp      = 30
	// PerRequest is the cost of a request in flight, in seconds.
	PerRequest = 0.020
	// While no server's rate is known, defaultRate is assumed, in tokens a second. While no prompt
	// was read, defaultPrompt is the assumed length of prompts, in tokens.
	defaultRate   = 4000
	defaultPrompt = 512
	// W shrinks at the rate leak times P. leak is below 1, because nothing corrects W if it shrinks
	// too early. In simulations at 90 % load, TTFT p90 is 3.18 s with this leak, and 4.21 s with 1.
	leak = 0.75
	// pressureFrom is the KV cache usage above which a server preempts sequences.
	pressureFrom = 0.8
)

// load is the scorer of the strategy "load". Its means over the servers replace unknown figures of
// a server.
type load struct {
	rate, prompt atomic.Uint64 // bits of float64; 0 means the default
	evicts       atomic.Uint64 // bits of float64
	adapters     adapters
}

// parts are the parts of a cost, in seconds.
type parts struct {
	prompt   float64 // to read the uncached prompt, including the delay of other requests
	evicted  float64 // to read evicted tokens again
	backlog  float64
	inFlight float64
	others   float64 // other clients' requests on the metrics page
	kv       float64 // to read the preempted part of the prompt again
	// adapter is the time to load the LoRA adapter, with an addition at servers that are no homes.
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
// sampled rate. A single slow request, as after the server's start, has little weight.
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
	// Requests that queue at the server do not measure: their wait would make the server look slow.
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
		p.adapter += c.away // not in c.ahead: away is a preference, not a predicted wait
	}
	return p
}

// sendBack lowers the cost of a prompt at its former home, the last server that cached it: the
// prompt's former tokens, or a part of them, cost no evictions there. c[i].Cached must be set.
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
