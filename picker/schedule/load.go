package schedule

// The strategy "load" compares endpoints by a cost in seconds: what a request would wait there, and what it would cost the
// requests after it. For a prompt of which the server lacks u tokens, and reads P tokens a second:
//
//	(3u + clamp(W, C/2, Q)) / P + 20 ms x in flight + others + pressure
//
// Q are the uncached tokens of all requests that were sent there and of which no first token is reported, W the same less what
// the server has read since at its rate, C the part of Q that is known to wait. u counts three times: a server
// that reads a prompt twice loses that time for all later requests, too. In simulations of eight servers at 70 % load with six
// workloads, TTFT p90 is 4.4 times as high without the prefix term, 1.5 times without the backlog, and 1.04 times (1.65 for the
// worst workload) without the 20 ms. A rate that is wrong by a factor of two changes it by 3 %.
const (
	uncachedWeight = 3
	perRequest     = 0.020 // seconds
	// defaultRate, in tokens a second, is assumed until some server's rate is learned, and defaultPrompt, in tokens, for a request
	// whose prompt is not read until others' are.
	defaultRate   = 4000
	defaultPrompt = 512
	// leak is the part of P at which W shrinks. First tokens are reported up to 2 s late, so a prompt that is taken to be read
	// too early is forgotten, and one that is taken to be read too late is corrected by the report.
	leak = 0.5
	// pressureFrom is the use of the KV cache above which a server preempts sequences to make room.
	pressureFrom = 0.8
)

// load is the scorer of the strategy.
type load struct{}

// parts are a cost, in seconds.
type parts struct {
	prompt   float64 // to read what is not cached of the prompt, three times
	backlog  float64 // to read the prompts that were sent there before
	inFlight float64 // for the requests in flight
	others   float64 // for the requests of senders that are not counted here, by the server's page
	kv       float64 // to read again what would be preempted
}

func (p *parts) sum() float64 { return p.prompt + p.backlog + p.inFlight + p.others + p.kv }

// assumed are the means of the endpoints that have figures, for those that have none.
type assumed struct{ rate, prompt float64 }

func assume(c []Candidate) assumed {
	var rates, prompts, rate, prompt float64
	for i := range c {
		if s := &c[i].State; s.Rate > 0 {
			rates, rate = rates+1, rate+s.Rate
		}
		if s := &c[i].State; s.Prompt > 0 {
			prompts, prompt = prompts+1, prompt+s.Prompt
		}
	}
	a := assumed{defaultRate, defaultPrompt}
	if rates > 0 {
		a.rate = rate / rates
	}
	if prompts > 0 {
		a.prompt = prompt / prompts
	}
	return a
}

// of returns an endpoint's cost for a request, and sets its rate and the request's uncached tokens there.
func (a *assumed) of(r *Request, c *Candidate) parts {
	s := &c.State
	tokens, prompt := float64(r.Tokens), s.Prompt
	if r.Tokens <= 0 {
		tokens = a.prompt
	}
	if c.rate = s.Rate; c.rate == 0 {
		c.rate = a.rate
	}
	if prompt == 0 {
		prompt = a.prompt
	}
	c.uncached = max(tokens-float64(c.Cached), 0)
	p := parts{
		prompt:   uncachedWeight * c.uncached / c.rate,
		backlog:  min(max(s.Reading, float64(s.Confirmed)/2/c.rate), float64(s.Unread)/c.rate),
		inFlight: perRequest * float64(s.InFlight),
	}
	if s.Fresh {
		p.others = s.OthersQueue*prompt/c.rate + perRequest*s.OthersRunning
		if over := s.KV - pressureFrom; over > 0 {
			p.kv = uncachedWeight * min(over/(1-pressureFrom), 1) * tokens / c.rate
		}
	}
	return p
}

func (load) score(r *Request, c []Candidate) {
	a := assume(c)
	for i := range c {
		p := a.of(r, &c[i])
		c[i].Cost = p.sum()
	}
}

func (load) explain(r *Request, c []Candidate) []map[string]float64 {
	a := assume(c)
	out := make([]map[string]float64, len(c))
	for i := range c {
		p := a.of(r, &c[i])
		out[i] = map[string]float64{"prompt": p.prompt, "backlog": p.backlog, "in-flight": p.inFlight, "others": p.others, "kv-cache": p.kv}
	}
	return out
}
