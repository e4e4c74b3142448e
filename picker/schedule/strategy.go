package schedule

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync/atomic"
	"time"

	"github.com/penstock-project/penstock/manifests/endpointpicker"
	"github.com/penstock-project/penstock/picker/endpoint"
	"github.com/penstock-project/penstock/picker/prefix"
)

// Full has thresholds; 0 disables one. An endpoint that reaches a threshold is full, and accepts
// no further requests.
type Full struct {
	Queue          int32
	KVCachePercent int32 // 1 to 100
	InFlight       int32 // requests in flight of all processes
}

// Options configure a Strategy.
type Options struct {
	Name    string // "" means "load"
	Full    Full
	Hashing Hashing
	// ShedAfter is the predicted time to the first token above which a sheddable request is shed; 0
	// means no limit.
	ShedAfter time.Duration
	// ShedFull makes the strategy "load" shed sheddable requests while no endpoint has capacity by
	// the thresholds of the strategy "tree".
	ShedFull bool
	Random   func() uint64 // uniform; required
	Profile  *endpointpicker.Profile
	// Prefixes may be nil.
	Prefixes *prefix.Index
}

// Equal reports whether two options give equivalent strategies. It ignores Random and Prefixes.
func (o *Options) Equal(p *Options) bool {
	return o.Name == p.Name && o.Full == p.Full && o.Hashing == p.Hashing && o.ShedAfter == p.ShedAfter &&
		o.ShedFull == p.ShedFull &&
		reflect.DeepEqual(o.Profile, p.Profile)
}

// Strategy ranks a pool's endpoints, for concurrent requests.
type Strategy struct {
	name      string
	filters   []filter
	full      Full
	scorer    scorer  // nil if all endpoints cost the same
	load      *load   // the scorer, if it is a *load
	foresees  *load   // may be nil
	after     float64 // Options.ShedAfter in seconds
	shedsFull bool
	trials    bool          // suspect endpoints get single requests
	prefixes  *prefix.Index // may be nil
	random    func() uint64
	turn      *atomic.Uint64 // round-robin position; nil in other strategies
	chooser   chooser        // replaces the scorer; nil in strategies with costs
	noters    []noter
	// variants are strategies for requests that name them (Request.Profile).
	variants map[string]*Strategy
}

type chooser interface {
	// choose moves up to n candidates to the front of c, best first, and returns them. An empty
	// result sheds the request. c is in the order of list. states has the state of each endpoint of
	// list; Candidate.lot is its index.
	choose(r *Request, list []endpoint.Endpoint, c []Candidate, states []endpoint.State, n int) []Candidate
	// explain adds the evaluation to verdicts, one for each endpoint of list. It may reorder c.
	explain(r *Request, list []endpoint.Endpoint, c []Candidate, states []endpoint.State, verdicts []Verdict)
}

type preparer interface {
	prepare(list []endpoint.Endpoint)
}

type filter struct {
	name string
	keep func(*endpoint.Endpoint, *endpoint.State) bool
}

type scorer interface {
	cost(r *Request, s *endpoint.State, c *Candidate) float64
	explain(r *Request, s *endpoint.State, c *Candidate) map[string]float64
}

// Candidate is an endpoint that passed the filters.
type Candidate struct {
	Endpoint *endpoint.Endpoint
	Cost     float64 // in seconds for the strategy "load", in requests for "least-request"
	Score    float64 // weighted sum, for the strategy "plugins"
	Cached   int     // cached tokens of the prompt
	// TTFT and TPOT are the predicted times to the first token and between two tokens, in seconds;
	// 0 if unknown. They are set for the first candidate and, for a request with an Objective, for
	// all.
	TTFT, TPOT float64
	// Trial means that the request tests a suspect endpoint, Relearn that it measures the
	// endpoint's speed again.
	Trial   bool
	Relearn bool
	// Rate is the known or assumed prefill rate, in tokens a second; 0 if the strategy ignores
	// prompts. RateFrom is the source of a known rate, "" for an assumed one.
	Rate     float64
	RateFrom endpoint.RateSource
	Drawn    bool // power-of-two-picker drew the endpoint for the first place

	last     bool // suspect, so the last choice
	out      bool
	warm     bool // any candidate has a part of the prompt cached
	misses   bool
	features endpoint.Features
	measure  bool // the time to the first byte shows the server's rate
	early    bool // the first byte may precede the first token
	doubt    doubt
	lot      uint32
	uncached float64
	weight   float64 // factor on the time to read the uncached tokens
	evicts   float64 // the part of weight for evictions
	returns  float64 // uncached tokens without evictions, because the endpoint is the former home
	ahead    float64 // seconds to read the earlier prompts and to load the adapter
	adapter  uint64  // hash of the request's adapter; 0 for none
	slots    int
	affinity uint64  // affinity of the adapter to the server
	away     float64 // additional seconds of cost if the server is no home of the adapter
	loads    bool
	crowded  bool // must load the adapter, while other adapters use all slots
}

// Suspect reports whether the endpoint is suspect, and therefore the last choice.
func (c *Candidate) Suspect() bool { return c.last }

// Work returns a request's demand on the endpoint.
func (c *Candidate) Work(r *Request) endpoint.Work {
	first, slowest, whole := c.expects(r)
	prompt := int(c.uncached)
	if c.Rate == 0 {
		prompt = r.Tokens
	}
	return endpoint.Work{
		First: first, Slowest: slowest, Whole: whole, Prompt: prompt,
		Tokens: int(c.uncached), Rate: c.Rate * leak, Stream: r.Stream, Measure: c.measure, Early: c.early,
		Trial: c.Trial, Relearn: c.Relearn, Adapter: c.adapter, Slots: c.slots,
		Features: c.features, TokenBytes: tokenBytes + len(r.Model), MaxTokens: r.MaxTokens,
	}
}

// Scratch is working memory of Rank, for reuse.
type Scratch struct {
	candidates []Candidate
	// Eligible counts the allowed endpoints that passed all filters, including full endpoints.
	Eligible int
	fresh    int
	// Shed means that the last Rank shed the request although an endpoint is not full.
	Shed bool
	Why  string
	// Passed is the endpoint of the request's key, if chwbl passed over it because of its requests
	// in flight, else nil.
	Passed  *endpoint.Endpoint
	excess  []Excess
	full    fullBy
	room    room
	servers []*prefix.Server
	cached  []int32
	state   endpoint.State
	states  []endpoint.State
}

// Names returns the sorted names of all strategies.
func Names() []string {
	names := make([]string, 0, len(strategies))
	for name := range strategies {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// New returns the strategy that o names. The error for an unknown name lists the known names.
func New(o Options) (*Strategy, error) {
	if o.Name == "" {
		o.Name = "load"
	}
	build, ok := strategies[o.Name]
	if !ok {
		return nil, fmt.Errorf("unknown strategy %q: use one of %v", o.Name, Names())
	}
	if o.Name == Plugins && o.Profile == nil {
		return nil, errors.New("strategy plugins needs a profile")
	}
	if p := o.Profile; p != nil && p.ByHeader != nil && o.Name == Plugins {
		return newVariants(o, p.ByHeader)
	}
	s := build(o)
	s.name, s.random, s.after = o.Name, o.Random, o.ShedAfter.Seconds()
	if s.load, _ = s.scorer.(*load); s.load != nil {
		s.prefixes, s.foresees, s.shedsFull = o.Prefixes, s.load, o.ShedFull
	} else if s.after > 0 {
		s.foresees = &load{}
	}
	s.filters = append([]filter{notDraining}, s.filters...)
	if o.Full != (Full{}) {
		s.filters, s.full = append(s.filters, notFull(o.Full)), o.Full
	}
	return s, nil
}

func newVariants(o Options, by *endpointpicker.ByHeader) (*Strategy, error) {
	all := map[string]*Strategy{}
	for name, profile := range by.Profiles {
		own := o
		own.Profile = profile
		s, err := New(own)
		if err != nil {
			return nil, err
		}
		all[name] = s
	}
	s := *all[by.Default]
	s.variants = all
	return &s, nil
}

func (s *Strategy) of(r *Request) *Strategy {
	if v := s.variants[r.Profile]; v != nil {
		return v
	}
	return s
}

// Name returns the strategy's name.
func (s *Strategy) Name() string { return s.name }

// Measure is the figure by which a strategy compares candidates.
type Measure uint8

const (
	ByRule  Measure = iota // no figure
	ByCost                 // Candidate.Cost
	ByScore                // Candidate.Score
)

// Measure returns the figure by which the strategy compares candidates.
func (s *Strategy) Measure() Measure {
	if s.scorer != nil {
		return ByCost
	}
	if p, ok := s.chooser.(*plugins); ok && len(p.scorers) > 0 {
		return ByScore
	}
	return ByRule
}

// Choice returns the type of llm-d's picker plugin, "" for strategies other than "plugins".
func (s *Strategy) Choice() string {
	if p, ok := s.chooser.(*plugins); ok {
		return p.kind
	}
	return ""
}

// Prepare computes the data that picks from list need. Call Prepare before the first pick.
func (s *Strategy) Prepare(list []endpoint.Endpoint) {
	if p, ok := s.chooser.(preparer); ok && len(list) > 0 {
		p.prepare(list)
	}
}

// Rank returns up to n (at least 1) endpoints of list for a request, best first, by their states at
// the time now. A nil allowed allows all endpoints. The result is valid until scratch's next use.
func (s *Strategy) Rank(r *Request, now time.Time, list []endpoint.Endpoint, allowed func(*endpoint.Endpoint) bool,
	n int, scratch *Scratch) []Candidate {
	s = s.of(r)
	var turn uint64
	if s.turn != nil {
		turn = s.turn.Add(1) - 1
	}
	ranked := s.rank(r, now, list, allowed, n, turn, scratch)
	if len(ranked) > 0 {
		for _, n := range s.noters {
			n.note(r, &ranked[0])
		}
	}
	return ranked
}

func (s *Strategy) rank(r *Request, now time.Time, list []endpoint.Endpoint, allowed func(*endpoint.Endpoint) bool,
	n int, turn uint64, scratch *Scratch) []Candidate {
	c := s.candidates(r, now, list, allowed, scratch)
	if len(c) == 0 || s.shed(r, c, scratch) {
		return nil
	}
	return s.foresee(r, now, s.order(r, now, list, allowed, c, n, turn, scratch), scratch)
}

func (s *Strategy) order(
	r *Request, now time.Time, list []endpoint.Endpoint, allowed func(*endpoint.Endpoint) bool,
	c []Candidate, n int, turn uint64, scratch *Scratch,
) []Candidate {
	if s.turn != nil {
		return inTurn(c, turn, n)
	}
	if s.trials {
		suspect(c, scratch.Eligible, scratch.fresh)
	}
	s.match(r, c, scratch)
	if s.chooser != nil {
		ranked := s.chooser.choose(r, list, c, scratch.states, n)
		if h, ok := s.chooser.(*chwbl); ok && r.Spread != 0 {
			scratch.Passed = s.passed(h.rings.of(list), r.Spread, list, ranked[0].Endpoint, allowed, scratch.states)
		}
		if len(ranked) == 0 {
			scratch.Shed, scratch.Why = true, whyCapacity
			if p, ok := s.chooser.(*plugins); ok && p.admission.Latency && r.Objective != (Objective{}) {
				scratch.Why = whyObjective
			}
			if by, ok := s.chooser.(shedder); ok {
				scratch.excess = by.exceeded(c, scratch.states)
			}
		}
		return ranked
	}
	s.judge(r, now, c, scratch)
	return best(c, n, s.random())
}

func (s *Strategy) match(r *Request, c []Candidate, scratch *Scratch) {
	if s.prefixes == nil || len(r.Chain)+len(r.Exact.Ends) == 0 {
		return
	}
	scratch.servers = slices.Grow(scratch.servers[:0], len(c))
	for i := range c {
		scratch.servers = append(scratch.servers, c[i].Endpoint.Load().Prefixes())
	}
	scratch.cached = slices.Grow(scratch.cached[:0], len(c))[:len(c)]
	s.prefixes.Match(r.Chain, scratch.servers, scratch.cached)
	s.prefixes.MatchReports(&r.Exact, r.Model, scratch.servers, scratch.cached)
	for i := range c {
		if c[i].Cached = int(scratch.cached[i]); c[i].Cached > 0 && s.load != nil {
			cached := min(float64(c[i].Cached), c[i].uncached)
			c[i].uncached -= cached
			c[i].Cost -= c[i].weight * cached / c[i].Rate
		}
	}
	if s.load != nil {
		s.load.sendBack(s.prefixes, r.Chain, c, scratch)
	}
	clear(scratch.servers) // keeps no removed servers in memory
}

func (s *Strategy) candidates(r *Request, now time.Time, list []endpoint.Endpoint,
	allowed func(*endpoint.Endpoint) bool, scratch *Scratch) []Candidate {
	c, at, state := scratch.candidates[:0], endpoint.At(now), &scratch.state
	anySilent, serving := false, 0
	scratch.Eligible, scratch.fresh, scratch.Shed, scratch.Why = 0, 0, false, ""
	scratch.excess, scratch.full, scratch.room, scratch.Passed = nil, fullBy{}, room{}, nil
	if s.chooser != nil {
		scratch.states = slices.Grow(scratch.states[:0], len(list))[:len(list)]
	}
	var m means
	var adapter uint64
	if s.load != nil {
		adapter = s.load.adapters.hash(r.Model)
	}
	for i := range list {
		e := &list[i]
		if allowed != nil && !allowed(e) {
			continue
		}
		if s.chooser != nil {
			state = &scratch.states[i]
		}
		e.ReadState(state, at)
		out := s.filteredBy(e, state)
		if out == "" || out == full {
			scratch.Eligible++
			if state.Silent == nil {
				serving++
			} else {
				anySilent = true
			}
			if state.Fresh {
				scratch.fresh++
			}
		}
		if out == full {
			scratch.full.add(s.full, state)
		}
		if out != "" {
			continue
		}
		if s.shedsFull && r.Criticality == Sheddable {
			scratch.room.add(state)
		}
		c = append(c, Candidate{Endpoint: e, doubt: doubts(state), lot: uint32(i), adapter: adapter})
		if s.scorer != nil {
			last := &c[len(c)-1]
			last.Cost = s.scorer.cost(r, state, last)
			m.add(state)
		}
	}
	if anySilent {
		c = withoutSilent(c, serving)
	}
	scratch.candidates = c
	if s.load == nil {
		return c
	}
	s.load.learn(&m)
	s.load.adapters.blind.Store(scratch.fresh == 0)
	if adapter == 0 && s.load.adapters.hash(r.Model) != 0 {
		return s.candidates(r, now, list, allowed, scratch)
	}
	if adapter != 0 {
		s.load.adapters.sendHome(adapter, c)
	}
	return c
}

func best(c []Candidate, n int, draw uint64) []Candidate {
	n = min(n, len(c))
	for i := range n {
		m := i
		for k := i + 1; k < len(c); k++ {
			if better(&c[k], &c[m], draw) {
				m = k
			}
		}
		c[i], c[m] = c[m], c[i]
	}
	return c[:n]
}

func better(a, b *Candidate, draw uint64) bool {
	if a.last != b.last {
		return b.last
	}
	if a.misses != b.misses {
		return b.misses
	}
	if a.Cost != b.Cost {
		return a.Cost < b.Cost
	}
	return Mix(draw+uint64(a.lot)) < Mix(draw+uint64(b.lot))
}

// Mix spreads a number over 64 bits, as splitmix64 does.
func Mix(x uint64) uint64 {
	x *= 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

func inTurn(c []Candidate, turn uint64, n int) []Candidate {
	first := int(turn % uint64(len(c)))
	slices.Reverse(c[:first])
	slices.Reverse(c[first:])
	slices.Reverse(c)
	return c[:min(n, len(c))]
}

// Candidates returns all endpoints that passed the filters of the last Rank or Preview, ranked ones
// first.
func (s *Scratch) Candidates() []Candidate { return s.candidates }
