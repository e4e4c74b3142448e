package simulation

import (
	"math/rand/v2"
	"time"
)

// Scenario is the input of Run.
type Scenario struct {
	Workload *Workload
	Strategy Strategy
	Servers  int // default 8
	Server   ServerConfig
	// Speeds are the servers' prefill rates, in tokens a second. If there are fewer rates than
	// servers, they repeat. nil means Server.PrefillRate for all. KnownSpeeds gives the
	// strategies of Production these rates, which they otherwise learn.
	Speeds      []float64
	KnownSpeeds bool
	Pages       Pages
	Pickers     int
	Publish     time.Duration
	// JoinAt is when the last server joins; 0 means the start.
	JoinAt time.Duration
	// ShedAfter is the predicted time to the first token above which a request is rejected; 0 means
	// no limit.
	ShedAfter time.Duration
	// Flow is the pickers' flow control, or nil.
	Flow *FlowControl
	// Seed is for ties and delays. Arrivals and delays are the same for every strategy.
	Seed uint64
}

// Pages describes how metrics pages are read.
type Pages struct {
	Every time.Duration // from the end of a scrape to the next; default 50 ms
	Takes time.Duration // duration of a scrape; the page has the values at its start
	Gone  bool
	Bare  bool
}

// Envoy writes a periodic access log entry every renewalInterval, and sends a batch of entries
// every feedbackInterval (translator/envoy).
const (
	renewalInterval  = 2 * time.Second
	feedbackInterval = 5 * time.Millisecond
)

// Outcome is the result of one request. Times are since the run's start; 0 without the event.
type Outcome struct {
	Server    int           // -1 if shed
	Cached    int           // tokens of the prompt
	Headers   time.Duration // a stream's headers, before the server reads the prompt
	Scheduled time.Duration
	FirstByte time.Duration // of the response's body
	End       time.Duration
	Preempted int
}

// Run simulates a scenario until all requests have ended, and returns their outcomes in order.
func Run(s Scenario) []Outcome {
	r := newRun(s, new(clock))
	r.arrive(0)
	for r.clock.next() {
	}
	return r.outcomes
}

type run struct {
	Scenario
	clock    *clock
	servers  []*server
	inFlight []int
	policies []Policy
	gates    []*gate
	outcomes []Outcome
	picks    []*Pick
	pickers  []int
	ended    int // ended requests, including shed ones
}

func (r *run) more() bool { return r.ended < len(r.outcomes) }

func newRun(s Scenario, clk *clock) *run {
	s.Servers, s.Pickers = or(s.Servers, 8), or(s.Pickers, 1)
	s.Server, s.Pages.Every = s.Server.withDefaults(), or(s.Pages.Every, 50*time.Millisecond)
	s.Pages.Bare = s.Pages.Bare || s.KnownSpeeds
	n := len(s.Workload.Requests)
	r := &run{Scenario: s, clock: clk, inFlight: make([]int, s.Servers), outcomes: make([]Outcome, n),
		picks: make([]*Pick, n), pickers: make([]int, n)}
	for i := range s.Servers {
		r.servers = append(r.servers, newServer(s.config(i), clk, len(s.Workload.tree.hashes), r.firstByte, r.end))
	}
	start := s.Servers
	if s.JoinAt > 0 {
		start--
	}
	for i := range s.Pickers {
		r.policies = append(r.policies,
			s.Strategy.New(Pool{Servers: start, Room: s.Servers, Config: s.Server, Workload: s.Workload,
				Random: rand.New(rand.NewPCG(s.Seed, uint64(i))), Oracle: r, ShedAfter: s.ShedAfter}))
	}
	if s.KnownSpeeds {
		s.know(r.policies)
	}
	if s.Flow != nil {
		for i := range s.Pickers {
			r.gates = append(r.gates, newGate(r, i))
		}
	}
	for i := range s.Servers {
		switch {
		case i < start:
			r.clock.at(time.Duration(i)*time.Millisecond, func() { r.scrape(i) })
		default:
			r.clock.at(s.JoinAt, func() {
				r.all(Fact{Kind: Joined, Server: i})
				r.scrape(i)
			})
		}
	}
	return r
}

func (r *run) all(f Fact) {
	for _, p := range r.policies {
		p.Learn(r.clock.now, f)
	}
}

func (r *run) scrape(server int) {
	if r.Strategy.Unpaged {
		return
	}
	r.all(Fact{Kind: ScrapeBegan, Server: server})
	f := Fact{Kind: Scraped, Server: server, Page: r.servers[server].page()}
	if r.Pages.Bare {
		f.Page.PrefillSeconds, f.Page.PrefillTokens = 0, 0
	}
	if r.Pages.Gone {
		f.Kind = Failed
	}
	done := func() {
		r.all(f)
		if r.more() {
			r.clock.at(r.clock.now+r.Pages.Every, func() { r.scrape(server) })
		}
	}
	if r.Pages.Takes == 0 {
		done()
		return
	}
	r.clock.at(r.clock.now+r.Pages.Takes, done)
}

// draw returns a number in [0,1) that depends only on the seed, the request and the purpose.
func (r *run) draw(request, purpose int) float64 {
	return float64(mix(r.Seed^mix(uint64(request)<<8|uint64(purpose)))>>11) / (1 << 53)
}

func (r *run) arrive(i int) {
	if i == len(r.Workload.Requests) {
		return
	}
	request := &r.Workload.Requests[i]
	r.clock.at(request.At, func() {
		r.pick(i, request)
		r.arrive(i + 1)
	})
}

func (r *run) pick(i int, request *Request) {
	by := int(r.draw(i, 0) * float64(len(r.policies)))
	if r.pickers[i] = by; r.gates != nil {
		r.gates[by].enter(i, request)
		return
	}
	r.choose(i, request)
}

func (r *run) shed(i int) {
	r.outcomes[i].Server = -1
	r.ended++
}

func (r *run) choose(i int, request *Request) {
	choice := r.policies[r.pickers[i]].Choose(r.clock.now, request)
	if choice.Server < 0 || r.ShedAfter > 0 && choice.Wait > r.ShedAfter {
		r.shed(i)
		return
	}
	pick := &Pick{Choice: choice, Request: request, At: r.clock.now}
	r.picks[i] = pick
	r.outcomes[i].Server = choice.Server
	r.inFlight[choice.Server]++
	r.learn(i, r.clock.now, Picked)
	if !r.Strategy.Immediate {
		r.report(i)
	}
	r.servers[choice.Server].add(i, request, &r.outcomes[i])
}

// learn passes a Fact about request i to the request's picker at the time at, and to the other
// pickers after Publish.
func (r *run) learn(i int, at time.Duration, kind Kind) {
	f := Fact{Kind: kind, Pick: r.picks[i], Server: r.picks[i].Server}
	if first := r.outcomes[i].FirstByte; first != 0 {
		f.After, f.Took = first-f.Pick.At, max(0, r.outcomes[i].End-first)
		f.Headers = r.outcomes[i].Headers - f.Pick.At
	}
	for to := range r.policies {
		f, at := f, at
		if f.Peer = to != r.pickers[i]; f.Peer {
			if at += r.Publish; r.Publish < 0 {
				continue
			}
		}
		if at <= r.clock.now {
			r.policies[to].Learn(r.clock.now, f)
		} else {
			r.clock.at(at, func() { r.policies[to].Learn(at, f) })
		}
	}
}

func (r *run) firstByte(q *sequence) {
	if r.Strategy.Immediate {
		r.learn(q.number, r.clock.now, FirstByte)
	}
}

func (r *run) end(q *sequence) {
	pick, at := r.picks[q.number], r.clock.now
	r.inFlight[pick.Server]--
	r.ended++
	if !r.Strategy.Immediate {
		at += r.late(q.number)
		if !pick.reported {
			r.learn(q.number, at, FirstByte)
		}
	}
	r.learn(q.number, at, Ended)
}

func (r *run) report(i int) {
	r.clock.at(r.clock.now+renewalInterval, func() {
		o := &r.outcomes[i]
		switch {
		case o.End != 0:
		case o.FirstByte != 0:
			r.picks[i].reported = true
			r.learn(i, r.clock.now+r.late(i), FirstByte)
		default:
			r.learn(i, r.clock.now+r.late(i), Waits)
			r.report(i)
		}
	})
}

func (r *run) late(request int) time.Duration {
	return time.Duration(r.draw(request, 1) * float64(feedbackInterval))
}

func (r *run) InFlight(server int) int { return r.inFlight[server] }

func (r *run) Cached(server int, q *Request) int {
	return r.servers[server].cache.match(q.full()) * BlockTokens
}
