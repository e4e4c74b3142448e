package simulation

import (
	"math/rand/v2"
	"time"
)

// Scenario is what Run plays.
type Scenario struct {
	Workload *Workload
	Strategy Strategy
	Servers  int // default 8
	Server   ServerConfig
	// Speeds are the prefill rates of the servers, in turn; nil: all have that of Server.
	// KnownSpeeds means that Production's strategies know them, and learn none.
	Speeds      []float64
	KnownSpeeds bool
	Pages       Pages
	// Pickers share the requests at random; default 1. Their picks, first bytes and ends reach each
	// other after Publish; if that is negative, never.
	Pickers int
	Publish time.Duration
	// JoinAt is when the last of the servers joins; 0: at the start, as all others.
	JoinAt time.Duration
	// ShedAfter rejects a request if a longer time to its first token is predicted at the server
	// chosen for it; 0: none is rejected. Production's strategies do so themselves.
	ShedAfter time.Duration
	// Flow has requests wait while the servers are saturated; nil: none does.
	Flow *FlowControl
	// Seed of ties and delays. Arrivals and delays do not depend on the strategy.
	Seed uint64
}

// Pages is how metrics pages are read.
type Pages struct {
	Every time.Duration // between the end of a scrape and the next one; default 50 ms
	Takes time.Duration // of one scrape; it shows the state at its start
	Gone  bool          // each scrape fails
	Bare  bool          // they do not have the series of prefill
}

// accessLog is how Envoy reports requests in flight and ends: translator/envoy has the same
// figures.
const (
	renewalInterval  = 2 * time.Second
	feedbackInterval = 5 * time.Millisecond
)

// Outcome is what became of a request. Times are those of the run; 0: it did not happen.
type Outcome struct {
	Server    int           // -1: it was shed
	Cached    int           // tokens of its prompt
	Headers   time.Duration // of the response: of a stream, before the prompt is read
	Scheduled time.Duration
	FirstByte time.Duration // of the response's body
	End       time.Duration
	Preempted int // times
}

// Run plays a scenario until all requests have ended, and returns an outcome for each.
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
	inFlight []int // by server
	policies []Policy
	gates    []*gate // by picker; none without flow control
	outcomes []Outcome
	picks    []*Pick
	pickers  []int // by request
	ended    int   // requests, those that were shed included
}

// more reports whether pages are to be read again.
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

// all passes a fact to all pickers.
func (r *run) all(f Fact) {
	for _, p := range r.policies {
		p.Learn(r.clock.now, f)
	}
}

// scrape reads a server's page, again and again while there are requests.
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

// draw returns a number in [0,1) that depends on the seed, a request and a purpose only.
func (r *run) draw(request, purpose int) float64 {
	return float64(mix(r.Seed^mix(uint64(request)<<8|uint64(purpose)))>>11) / (1 << 53)
}

// arrive has request number i picked for when it arrives, and then the next one.
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

// shed ends a request that no server gets.
func (r *run) shed(i int) {
	r.outcomes[i].Server = -1
	r.ended++
}

// choose sends a request to the server that its picker chooses.
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

// learn passes a fact about a pick to its picker at a time, and to the others later.
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

// firstByte is called by a server.
func (r *run) firstByte(q *sequence) {
	if r.Strategy.Immediate {
		r.learn(q.number, r.clock.now, FirstByte)
	}
}

// end is called by a server.
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

// report is an entry of the access log for a request that goes on. It renews itself until it has
// reported the first byte.
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

// late is how long Envoy buffers an entry of its access log.
func (r *run) late(request int) time.Duration {
	return time.Duration(r.draw(request, 1) * float64(feedbackInterval))
}

// InFlight implements Oracle.
func (r *run) InFlight(server int) int { return r.inFlight[server] }

// Cached implements Oracle.
func (r *run) Cached(server int, q *Request) int {
	return r.servers[server].cache.match(q.full()) * BlockTokens
}
