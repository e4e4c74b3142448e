package schedule

import (
	"container/heap"
	"math"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/penstock-project/penstock/picker/endpoint"
)

// fleet is a model of a pool in virtual time: servers that read prompts in chunks, and decode in batches. It runs the picker's own
// accounting. Package simulation has the detailed model.
type fleet struct {
	random   *rand.Rand
	now      time.Time
	events   events
	strategy *Strategy
	leases   *endpoint.Leases
	list     []endpoint.Endpoint
	servers  []*modelServer
	share    float64 // of the requests that are picked for here; another sender takes turns for the others
	exact    bool    // first tokens are reported at once, and not every 2 s
	silent   bool    // first tokens are not reported
	pages    time.Duration
	turn     int
	scratch  Scratch
	ttft     []arrived
	counts   map[int]int // picks by server, since the last reset
}

type arrived struct {
	at   time.Time
	ttft float64
}

type modelServer struct {
	rate             float64 // tokens a second
	waiting, running []*modelRequest
	busy             bool
}

type modelRequest struct {
	at             time.Time
	prompt, output int // tokens left
	lease          *endpoint.Lease
	begun          bool
	first          time.Duration
	ended          bool
}

type event struct {
	at time.Time
	do func()
}

type events []event

func (e events) Len() int           { return len(e) }
func (e events) Less(i, k int) bool { return e[i].at.Before(e[k].at) }
func (e events) Swap(i, k int)      { e[i], e[k] = e[k], e[i] }
func (e *events) Push(x any)        { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

func newFleet(t testing.TB, seed uint64, strategy string, rates ...float64) *fleet {
	t.Helper()
	f := &fleet{random: rand.New(rand.NewPCG(seed, 7)), now: time.Unix(0, 0), leases: endpoint.NewLeases("me", time.Hour), share: 1, pages: 50 * time.Millisecond, counts: map[int]int{}}
	var err error
	if f.strategy, err = New(Options{Name: strategy, Random: f.random.Uint64}); err != nil {
		t.Fatal(err)
	}
	f.setServers(rates)
	return f
}

// setServers has the pool consist of the servers so far, and more.
func (f *fleet) setServers(rates []float64) {
	registry := endpoint.NewRegistry(endpoint.Config{Jitter: func() float64 { return 0.5 }})
	var specs []endpoint.Spec
	for i, rate := range rates {
		f.servers = append(f.servers, &modelServer{rate: rate})
		specs = append(specs, endpoint.Spec{Addr: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}), 80)})
	}
	f.list = registry.Snapshot(endpoint.Metrics{}, nil, specs).Endpoints
	for i := range f.list {
		f.after(0, func() { f.scrape(i) })
	}
}

func (f *fleet) after(d time.Duration, do func()) { heap.Push(&f.events, event{f.now.Add(d), do}) }

func (f *fleet) run(d time.Duration) {
	for end := f.now.Add(d); len(f.events) > 0 && f.events[0].at.Before(end); {
		e := heap.Pop(&f.events).(event)
		f.now = e.at
		e.do()
	}
}

func (f *fleet) scrape(i int) {
	s, mark := f.servers[i], f.list[i].BeginScrape()
	if f.pages > 0 {
		mark.Succeed(endpoint.Reading{Queue: float64(len(s.waiting)), Running: float64(len(s.running))}, f.now)
		f.after(f.pages, func() { f.scrape(i) })
	}
}

// offer has requests arrive at a rate, until the fleet is not run any more. n is how many servers take requests.
func (f *fleet) offer(rate float64, n func() int) {
	f.after(time.Duration(f.random.ExpFloat64()/rate*1e9), func() {
		f.arrive(n())
		f.offer(rate, n)
	})
}

func (f *fleet) arrive(n int) {
	prompt := 200 + int(400*math.Exp(f.random.NormFloat64()*.8))
	if f.random.IntN(5) == 0 {
		prompt = 4000 + f.random.IntN(16000)
	}
	r := &modelRequest{at: f.now, prompt: prompt, output: 20 + int(f.random.ExpFloat64()*150)}
	var i int
	if f.random.Float64() < f.share {
		q := Request{Tokens: r.prompt, Stream: true}
		c := f.strategy.Rank(&q, f.now, f.list[:n], nil, 1, &f.scratch)
		i = int(c[0].Endpoint.Addr.Addr().As4()[3])
		r.lease = f.leases.Open(c[0].Endpoint, endpoint.Holder{}, c[0].Work(&q), 0, f.now)
		if f.exact {
			r.lease.Waits()
		}
		f.report(r)
	} else {
		f.turn++
		i = f.turn % n
	}
	f.counts[i]++
	s := f.servers[i]
	s.waiting = append(s.waiting, r)
	f.wake(s)
}

// report renews the lease as Envoy does.
func (f *fleet) report(r *modelRequest) {
	if f.exact || f.silent {
		return
	}
	f.after(2*time.Second, func() {
		if r.ended {
			return
		}
		if r.begun {
			r.lease.Begun(r.first)
			return
		}
		r.lease.Waits()
		f.report(r)
	})
}

// wake runs a step of a server that has work.
func (f *fleet) wake(s *modelServer) {
	if s.busy || len(s.waiting)+len(s.running) == 0 {
		return
	}
	s.busy = true
	budget, read := 2048, 0
	for _, r := range s.running {
		if r.prompt <= 0 {
			budget--
		}
	}
	var first []*modelRequest
	prefill := func(r *modelRequest) {
		n := min(r.prompt, budget)
		r.prompt, budget, read = r.prompt-n, budget-n, read+n
		if n > 0 && r.prompt == 0 {
			first = append(first, r)
		}
	}
	for _, r := range s.running {
		prefill(r)
	}
	for budget > 0 && len(s.waiting) > 0 && len(s.running) < 128 { // as in vLLM, one that gets no tokens waits
		s.running, s.waiting = append(s.running, s.waiting[0]), s.waiting[1:]
		prefill(s.running[len(s.running)-1])
	}
	took := max(20*time.Millisecond, time.Duration(float64(read)/s.rate*1e9)) + time.Duration(len(s.running))*300*time.Microsecond
	f.after(took, func() { f.step(s, first) })
}

func (f *fleet) step(s *modelServer, first []*modelRequest) {
	s.busy = false
	for _, r := range first {
		r.begun, r.first = true, f.now.Sub(r.at)
		f.ttft = append(f.ttft, arrived{r.at, r.first.Seconds()})
		if r.lease != nil && f.exact {
			r.lease.Begun(r.first)
		}
	}
	s.running = slices.DeleteFunc(s.running, func(r *modelRequest) bool {
		if !r.begun {
			return false
		}
		if r.output--; r.output > 0 {
			return false
		}
		r.ended = true
		if r.lease != nil {
			f.after(100*time.Millisecond, func() {
				if !f.silent {
					r.lease.Begun(r.first)
				}
				r.lease.Release()
			})
		}
		return true
	})
	f.wake(s)
}

// p90 of the times to the first token of requests that arrived from one time to another.
func (f *fleet) quantile(q float64, from, to time.Duration) float64 {
	var all []float64
	for _, a := range f.ttft {
		if since := a.at.Sub(time.Unix(0, 0)); since >= from && since < to {
			all = append(all, a.ttft)
		}
	}
	slices.Sort(all)
	return all[int(q*float64(len(all)))]
}
