package schedule

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/penstock-project/penstock/picker/endpoint"
)

type server struct {
	queue, running int // on the server's page
	kv             float64
	// inFlight counts this process's requests, with prompts of 500 tokens, that the page does not
	// show.
	inFlight int
	stale    bool
	draining bool
}

var epoch = time.Unix(1000, 0)

func endpoints(t testing.TB, servers ...server) []endpoint.Endpoint {
	t.Helper()
	registry := endpoint.NewRegistry(endpoint.Config{Jitter: func() float64 { return 0.5 }})
	var specs []endpoint.Spec
	for i, s := range servers {
		specs = append(specs,
			endpoint.Spec{Addr: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), 80),
				Draining: s.draining})
	}
	list := registry.Snapshot(endpoint.Metrics{}, nil, specs).Endpoints
	leases := endpoint.NewLeases("test", time.Hour)
	for i, s := range servers {
		e := &list[i]
		if s.stale {
			for range 3 {
				e.BeginScrape().Fail(errors.New("no page"))
			}
		} else {
			e.BeginScrape().Succeed(endpoint.Reading{Queue: float64(s.queue), Running: float64(s.running), KV: s.kv},
				epoch)
		}
		for range s.inFlight {
			leases.Open(e, endpoint.Holder{}, endpoint.Work{Tokens: 500, Rate: defaultRate}, 0, epoch)
		}
	}
	return list
}

func strategy(t testing.TB, o Options) *Strategy {
	t.Helper()
	o.Random = rand.New(rand.NewPCG(1, 2)).Uint64
	if o.Name == Plugins && o.Profile == nil {
		o.Profile = one(t, "queue-scorer", "{}")
	}
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// ranked returns the last byte of each chosen address.
func ranked(s *Strategy, list []endpoint.Endpoint, n int) []byte {
	var out []byte
	for _, c := range s.Rank(&Request{}, epoch, list, nil, n, &Scratch{}) {
		out = append(out, number(&c))
	}
	return out
}

func number(c *Candidate) byte { return c.Endpoint.Addr.Addr().As4()[3] }

func TestStrategy_LoadPrefersLeastCost(t *testing.T) {
	for _, tt := range []struct {
		name    string
		servers []server
		o       Options
		want    string
	}{
		{"queue of other senders", []server{{queue: 5}, {queue: 1}, {queue: 9}}, Options{}, "[1 0 2]"},
		{"running requests of other senders", []server{{running: 4}, {running: 1}}, Options{}, "[1 0]"},
		{"requests in flight that no scrape shows", []server{{inFlight: 3}, {inFlight: 1}}, Options{}, "[1 0]"},
		{"a queued request costs more than one that runs", []server{{queue: 1}, {running: 2}}, Options{}, "[1 0]"},
		{"a nearly full KV cache costs more than a queue", []server{{queue: 0, kv: .95}, {queue: 1, kv: .1}}, Options{},
			"[1 0]"},
		{"the fuller of two KV caches under pressure", []server{{kv: .99}, {kv: .85}}, Options{}, "[1 0]"},
		{"a page that counts our own requests", []server{{inFlight: 1, queue: 0}, {running: 1}}, Options{}, "[1 0]"},
		{"draining is not chosen", []server{{draining: true}, {queue: 50}}, Options{}, "[1]"},
		{"full by queue", []server{{queue: 5}, {queue: 4, kv: .9}}, Options{Full: Full{Queue: 5}}, "[1]"},
		{"full by KV cache", []server{{kv: .8}, {kv: .79, queue: 9}}, Options{Full: Full{KVCachePercent: 80}}, "[1]"},
		{"full by requests in flight", []server{{inFlight: 2}, {inFlight: 1, queue: 9}},
			Options{Full: Full{InFlight: 2}}, "[1]"},
		{"a stale queue makes no endpoint full", []server{{stale: true}}, Options{Full: Full{Queue: 1}}, "[0]"},
		{"requests sent since the scrape wait in a non-empty queue", []server{{queue: 1, inFlight: 2}, {queue: 2}},
			Options{Full: Full{Queue: 3}}, "[1]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := fmt.Sprint(ranked(strategy(t, tt.o), endpoints(t, tt.servers...), 9)); got != tt.want {
				t.Errorf("order %v, want %v", got, tt.want)
			}
		})
	}
}

func TestStrategy_LoadSpreadsBetweenTwoSamples(t *testing.T) {
	servers := []server{{kv: .05}}
	for range 9 {
		servers = append(servers, server{kv: .6})
	}
	list, s, leases := endpoints(t, servers...), strategy(t, Options{}), endpoint.NewLeases("me", time.Hour)
	picks := 0
	for i := range 200 {
		r, now := Request{Tokens: 1000}, epoch.Add(time.Duration(i)*250*time.Microsecond)
		c := s.Rank(&r, now, list, nil, 1, &Scratch{})
		leases.Open(c[0].Endpoint, endpoint.Holder{}, c[0].Work(&r), 0, now)
		if number(&c[0]) == 0 {
			picks++
		}
	}
	if picks > 60 {
		t.Errorf("%d of 200 picks between two samples go to the server with the emptiest KV cache, want at most 60",
			picks)
	}
}

// A request prefers a server that has its adapter, but not if the wait there is too long. A server
// has the adapter from the pick on, even after the request's end.
func TestAdapter_ServerThatHasItIsPreferred(t *testing.T) {
	list := endpoints(t, server{}, server{}, server{})
	page := func(i int, running ...string) {
		list[i].BeginScrape().Succeed(endpoint.Reading{Adapters: &endpoint.Adapters{Running: running, Max: 2}}, epoch)
	}
	s, leases := strategy(t, Options{}), endpoint.NewLeases("me", time.Hour)
	pick := func(model string) byte {
		r := Request{Model: model, Tokens: 100}
		c := s.Rank(&r, epoch, list, nil, 1, &Scratch{})
		leases.Open(c[0].Endpoint, endpoint.Holder{}, c[0].Work(&r), 0, epoch).Release()
		return number(&c[0])
	}
	page(0, "a", "b")
	page(1, "sql")
	page(2)
	for range 20 {
		if n := pick("sql"); n != 1 {
			t.Fatalf("server %d is picked, want 1, which has the adapter", n)
		}
	}
	page(1)
	page(2, "c")
	for range 20 {
		if n := pick("sql"); n != 1 {
			t.Fatalf("server %d is picked after the adapter's requests have ended on server 1, want 1", n)
		}
	}
	page(1, "d", "e")
	costs := s.Describe(&Request{Model: "law", Tokens: 100}, epoch, list, nil)
	if costs[2].Costs["adapter"] != 0 {
		t.Errorf("a model that no server shows costs %v, want 0 for its adapter", costs[2].Costs)
	}
	costs = s.Describe(&Request{Model: "sql", Tokens: 100}, epoch, list, nil)
	for i, want := range []float64{loadAdapter + awaitSlot, 0, loadAdapter} {
		if got := costs[i].Costs["adapter"]; got != want {
			t.Errorf("server %d: %v s for the adapter, want %v", i, got, want)
		}
	}
	for range 20 {
		r := Request{Model: "sql", Tokens: 100}
		c := s.Rank(&r, epoch, list, nil, 1, &Scratch{})
		leases.Open(c[0].Endpoint, endpoint.Holder{}, c[0].Work(&r), 0, epoch)
	}
	if list[2].State().InFlight == 0 {
		t.Error("20 requests wait at one server for its adapter")
	}
	counts := map[byte]int{}
	for range 60 {
		r := Request{Model: "base", Tokens: 100}
		c := s.Rank(&r, epoch, list, nil, 1, &Scratch{})
		leases.Open(c[0].Endpoint, endpoint.Holder{}, c[0].Work(&r), 0, epoch)
		counts[number(&c[0])]++
	}
	if counts[0] < 20 {
		t.Errorf("the base model's requests go to %v, want at least 20 to server 0", counts)
	}
}

// After its page has shown one slot, a server counts as having only the last loaded adapter, even
// if earlier picks assumed more slots.
func TestAdapter_OneSlotHoldsTheLastOne(t *testing.T) {
	list := endpoints(t, server{}, server{})
	s, leases := strategy(t, Options{}), endpoint.NewLeases("me", time.Hour)
	page := func(i int, running ...string) {
		list[i].BeginScrape().Succeed(endpoint.Reading{Adapters: &endpoint.Adapters{Running: running, Max: 1}}, epoch)
	}
	page(0, "sql")
	page(1, "french")
	// These two picks make both models count as adapters.
	s.Rank(&Request{Model: "sql"}, epoch, list, nil, 1, &Scratch{})
	s.Rank(&Request{Model: "french"}, epoch, list, nil, 1, &Scratch{})
	list[0].BeginScrape().Succeed(endpoint.Reading{}, epoch) // a page without adapters
	pick := func(model string, allowed int) {
		r := Request{Model: model, Tokens: 100}
		c := s.Rank(&r, epoch, list, func(e *endpoint.Endpoint) bool { return e == &list[allowed] }, 1, &Scratch{})
		leases.Open(c[0].Endpoint, endpoint.Holder{}, c[0].Work(&r), 0, epoch).Release()
	}
	pick("french", 0)
	pick("sql", 0)
	page(0, "sql")
	page(1)
	costs := s.Describe(&Request{Model: "french", Tokens: 100}, epoch, list, nil)
	// Server 0 is the adapter's home.
	for i, want := range []float64{loadAdapter + awaitSlot, loadAdapter + awaitSlot/2} {
		if got := costs[i].Costs["adapter"]; got != want {
			t.Errorf("server %d: %v s for the adapter, want %v", i, got, want)
		}
	}
}

func TestAdapter_AffinityHoldsWithoutPages(t *testing.T) {
	list := endpoints(t, server{stale: true}, server{stale: true}, server{stale: true}, server{stale: true})
	s, leases, servers := strategy(t, Options{}), endpoint.NewLeases("me", time.Hour), map[string]map[byte]bool{}
	for i := range 80 {
		r := Request{Model: fmt.Sprint("adapter-", i%4), Tokens: 100}
		c := s.Rank(&r, epoch, list, nil, 1, &Scratch{})
		leases.Open(c[0].Endpoint, endpoint.Holder{}, c[0].Work(&r), 0, epoch).Release()
		if servers[r.Model] == nil {
			servers[r.Model] = map[byte]bool{}
		}
		servers[r.Model][number(&c[0])] = true
	}
	for model, at := range servers {
		if model != "adapter-0" && len(at) > 1 {
			t.Errorf("%s is loaded by servers %v, want one", model, at)
		}
	}
	one := strategy(t, Options{})
	for range 3 {
		if v := one.Describe(&Request{Model: "base"}, epoch, list, nil); v[0].Costs["adapter"] != 0 {
			t.Error("the only model of a pool counts as an adapter")
		}
	}
}

func TestStale_FreshnessOfAFewDecidesNothing(t *testing.T) {
	list := endpoints(t, server{}, server{stale: true}, server{stale: true}, server{stale: true})
	s, leases, counts := strategy(t, Options{}), endpoint.NewLeases("me", time.Hour), map[byte]int{}
	for range 40 {
		r := Request{Tokens: 1000}
		c := s.Rank(&r, epoch, list, nil, 1, &Scratch{})
		leases.Open(c[0].Endpoint, endpoint.Holder{}, c[0].Work(&r), 0, epoch)
		counts[number(&c[0])]++
	}
	for i, n := range counts {
		if n != 10 {
			t.Errorf("server %d gets %d of 40 requests, want 10", i, n)
		}
	}
}

func TestTrial_SuspectServerGetsSingleRequests(t *testing.T) {
	failing := func(e *endpoint.Endpoint) {
		for range 3 {
			e.Load().RecordFailed("a test", epoch)
		}
	}
	for _, tt := range []struct {
		name  string
		stale bool
		fail  func(*endpoint.Endpoint)
		wait  time.Duration // until the first trial
	}{
		{"stale", true, func(*endpoint.Endpoint) {}, 0},
		{"failing", false, failing, time.Second},
		{"stale and failing", true, failing, time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			list := endpoints(t, server{}, server{}, server{stale: tt.stale})
			s, leases, suspected := strategy(t, Options{}), endpoint.NewLeases("me", time.Hour), &list[2]
			tt.fail(suspected)
			now := epoch
			// pick sends n requests. It returns the suspect server's lease, or nil, and the number
			// of such picks.
			pick := func(n int) (lease *endpoint.Lease, picks int) {
				for range n {
					r := Request{Tokens: 1000}
					c := s.Rank(&r, now, list, nil, 3, &Scratch{})
					l := leases.Open(c[0].Endpoint, endpoint.Holder{}, c[0].Work(&r), 0, now)
					if c[0].Endpoint == suspected {
						lease, picks = l, picks+1
					} else if len(c) != 3 || picks == 1 && c[2].Endpoint != suspected {
						t.Error("it is not the last choice")
					}
				}
				return lease, picks
			}
			if _, n := pick(12); tt.wait > 0 && n != 0 {
				t.Errorf("%d requests before the first trial, want 0", n)
			} else if tt.wait == 0 && n != 1 {
				t.Errorf("%d requests at once, want 1", n)
			}
			for i := range list {
				e := &list[i]
				e.BeginScrape() // does not end, so the page does not change
			}
			now = now.Add(tt.wait)
			trial, n := pick(12)
			if tt.wait > 0 && n != 1 {
				t.Fatalf("%d trials in flight, want 1", n)
			}
			if trial == nil { // the trial was among the first requests
				trial = leases.Find("me." + fmt.Sprint(1))
				for id := 1; trial.Picked() != suspected.Load(); id++ {
					trial = leases.Find(fmt.Sprintf("me.%d", id))
				}
			}
			trial.Release()
			suspected.Load().Record(0, now)
			if _, n := pick(12); n < 3 {
				t.Errorf("%d of 12 requests after a trial has succeeded, want at least 3", n)
			}
		})
	}
}

func TestTrial_PausesGrowWithEachFailure(t *testing.T) {
	list := endpoints(t, server{}, server{})
	s, now := strategy(t, Options{}), epoch
	for range 3 {
		list[1].Load().RecordFailed("a test", now)
	}
	for _, pause := range []time.Duration{1, 2, 4, 8, 16, 30, 30} {
		for _, tt := range []struct {
			after time.Duration
			due   bool
		}{{pause*time.Second - 1, false}, {pause * time.Second, true}} {
			due := false
			for _, v := range s.Describe(&Request{}, now.Add(tt.after), list, nil) {
				due = due || v.Trial == "due"
			}
			if due != tt.due {
				t.Errorf("%s after a failure: trial due %t, want %t", tt.after, due, tt.due)
			}
		}
		now = now.Add(pause * time.Second)
		list[1].Load().RecordFailed("a test", now)
	}
	list[1].Load().Record(0, now)
	if v := s.Describe(&Request{}, now, list, nil); v[1].Trial != "" {
		t.Error("a success does not clear it")
	}
}

func TestLeastRequest_IgnoresMetrics(t *testing.T) {
	list := endpoints(t, server{inFlight: 2}, server{queue: 9, kv: 1})
	if got := ranked(strategy(t, Options{Name: "least-request"}), list, 1); got[0] != 1 {
		t.Errorf("got %v, want 1, with fewer requests in flight", got)
	}
}

func TestRoundRobin_PreviewTakesNoTurn(t *testing.T) {
	list := endpoints(t, server{}, server{draining: true}, server{}, server{})
	s := strategy(t, Options{Name: "round-robin"})
	for i, want := range []string{"[0 2]", "[2 3]", "[3 0]", "[0 2]"} {
		preview := fmt.Sprint(number(&s.Preview(&Request{}, epoch, list, nil, 2, &Scratch{})[0]))
		got := ranked(s, list, 2)
		if fmt.Sprint(got) != want || preview != fmt.Sprint(got[0]) {
			t.Errorf("turn %d: %v (preview %s), want %s", i, got, preview, want)
		}
	}
}

func TestStrategy_EqualEndpointsAreChosenEquallyOften(t *testing.T) {
	list := endpoints(t, server{}, server{}, server{}, server{})
	for _, name := range []string{"random", "load", "least-request"} {
		s := strategy(t, Options{Name: name})
		counts := map[byte]int{}
		for range 4000 {
			counts[ranked(s, list, 1)[0]]++
		}
		for i, n := range counts {
			if n < 850 || n > 1150 {
				t.Errorf("%s: server %d was chosen %d times of 4000, want at least 850 and at most 1150", name, i, n)
			}
		}
	}
}

func TestStrategy_DescribeShowsFiltersAndCostsInSeconds(t *testing.T) {
	list := endpoints(t, server{queue: 4, kv: .9, running: 5}, server{inFlight: 2}, server{draining: true},
		server{queue: 9})
	s, r := strategy(t, Options{Full: Full{Queue: 9}}), &Request{Tokens: 4000}
	v := s.Describe(r, epoch, list, func(e *endpoint.Endpoint) bool { return true })
	if v[2].Out != "draining" || v[3].Out != "full" {
		t.Errorf("verdicts %+v, want the third out as draining, and the fourth as full", v)
	}
	near := func(got map[string]float64, want map[string]float64) bool {
		for name, w := range want {
			if d := got[name] - w; d < -1e-6 || d > 1e-6 {
				return false
			}
		}
		return len(got) == len(want)
	}
	// The mean prompt, which counts for each waiting request, has 500 tokens.
	if want := map[string]float64{"prompt": 2, "evicted": 0, "backlog": 0, "in-flight": 0, "others": .6, "kv-cache": 1,
		"adapter": 0}; !near(v[0].Costs, want) {
		t.Errorf("%v, want %v", v[0].Costs, want)
	}
	if want := map[string]float64{"prompt": 1.7, "evicted": 0, "backlog": .25, "in-flight": .04, "others": 0,
		"kv-cache": 0, "adapter": 0}; !near(v[1].Costs, want) {
		t.Errorf("%v, want %v", v[1].Costs, want)
	}
	sum := 0.0
	for _, part := range v[0].Costs {
		sum += part
	}
	if d := sum - *v[0].Cost; d < -1e-9 || d > 1e-9 {
		t.Errorf("cost %v of parts %v, want their sum", *v[0].Cost, v[0].Costs)
	}
	if v := s.Describe(r, epoch, list, func(e *endpoint.Endpoint) bool {
		return e == &list[1]
	}); v[0].Out != "subset" || v[1].Out != "" {
		t.Errorf("verdicts %+v, want the first out by the subset, and the second in", v)
	}
}

// Reading a long prompt delays the responses that run at a server, so a long prompt goes to a
// server with fewer of them. This cost is bounded: it must not outweigh the queue of a server that
// runs as many requests as it can.
func TestStrategy_LongPromptGoesWhereFewResponsesRun(t *testing.T) {
	list := endpoints(t, server{running: 10}, server{queue: 3})
	s := strategy(t, Options{})
	for tokens, want := range map[int]byte{100: 0, 4000: 1} {
		if got := number(&s.Rank(&Request{Tokens: tokens}, epoch, list, nil, 1, &Scratch{})[0]); got != want {
			t.Errorf("a prompt of %d tokens goes to server %d, want %d", tokens, got, want)
		}
	}
	v := s.Describe(&Request{Tokens: 4000}, epoch,
		endpoints(t, server{running: 40}, server{running: 120}, server{running: 20, inFlight: 5}), nil)
	for i, want := range []float64{4.5, 4.5, 4} {
		if got := v[i].Costs["prompt"]; got != want {
			t.Errorf("server %d: %v s for a prompt that is read in one, want %v", i, got, want)
		}
	}
}

func TestStrategy_UnknownNameListsValidNames(t *testing.T) {
	_, err := New(Options{Name: "best"})
	const want = `unknown strategy "best": use one of ` +
		`[chwbl least-request load plugins random round-robin session tree]`
	if err == nil || err.Error() != want {
		t.Error(err)
	}
}
