package schedule

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/penstock-project/penstock/picker/endpoint"
)

// slow makes each request in flight at an endpoint cost more time per token.
func slow(list []endpoint.Endpoint, each time.Duration) {
	leases := endpoint.NewLeases("slow", time.Hour)
	for range 50 {
		lease := leases.Open(&list[0], endpoint.Holder{},
			endpoint.Work{Stream: true, Features: endpoint.Features{InFlight: 1}, TokenBytes: 1}, 0, epoch)
		lease.Wrote(101, 100*each)
		lease.Release()
	}
}

// The time to load an adapter counts in the time to the first token.
func TestSLO_LoadingAnAdapterCountsAsTime(t *testing.T) {
	list := endpoints(t, server{}, server{})
	list[0].BeginScrape().Succeed(endpoint.Reading{Adapters: &endpoint.Adapters{Max: 2}}, epoch)
	list[1].BeginScrape().Succeed(endpoint.Reading{Adapters: &endpoint.Adapters{Running: []string{"sql"}, Max: 2}},
		epoch)
	v := strategy(t, Options{}).Describe(&Request{Model: "sql", Tokens: 400, Objective: Objective{TTFT: .3}}, epoch,
		list, nil)
	if d := v[0].TTFT - v[1].TTFT - loadAdapter; d < -1e-6 || d > 1e-6 || !v[0].Late || v[1].Late {
		t.Errorf("first tokens after %v s where the adapter is to be loaded (late: %t), %v s where it is (%t); want "+
			"%v s between", v[0].TTFT, v[0].Late, v[1].TTFT, v[1].Late, loadAdapter)
	}
}

func TestSLO_EndpointsThatMissItComeLast(t *testing.T) {
	list := endpoints(t, server{}, server{inFlight: 4})
	slow(list, 100*time.Millisecond)
	s := strategy(t, Options{})
	for _, tt := range []struct {
		name  string
		r     Request
		first int // -1 means shed
	}{
		{"nothing is asked for", Request{Tokens: 400}, 0},
		{"tokens in time", Request{Tokens: 400, Objective: Objective{TPOT: 0.05}}, 1},
		// Server 0 takes 0.1 s. At server 1, the request would wait behind 2,000 tokens.
		{"first token in time", Request{Tokens: 400, Objective: Objective{TTFT: 0.3}}, 0},
		{"neither can", Request{Tokens: 400, Objective: Objective{TTFT: 0.3, TPOT: 0.05}}, 0},
		{
			"neither can, of a standard request", Request{
				Tokens: 400, Criticality: Standard, Objective: Objective{TTFT: 0.001},
			}, 0,
		},
		{
			"neither can, of a sheddable request",
			Request{Tokens: 400, Criticality: Sheddable, Objective: Objective{TTFT: 0.3, TPOT: 0.05}}, -1,
		},
		{
			"one can, of a sheddable request", Request{
				Tokens: 400, Criticality: Sheddable, Objective: Objective{TPOT: 0.05},
			}, 1,
		},
		{"a sheddable request that asks for nothing", Request{Tokens: 400, Criticality: Sheddable}, 0},
	} {
		var scratch Scratch
		c := s.Rank(&tt.r, epoch, list, nil, 2, &scratch)
		switch {
		case tt.first < 0:
			if len(c) > 0 || !scratch.Shed || scratch.Why != whyObjective {
				t.Errorf("%s: %d endpoints, shed for %q; want none, for %q", tt.name, len(c), scratch.Why, whyObjective)
			}
		case len(c) != 2 || int(number(&c[0])) != tt.first || scratch.Shed:
			t.Errorf("%s: got %v, want both, %d first, and not shed", tt.name, c, tt.first)
		case c[0].TTFT <= 0 || c[0].TPOT <= 0:
			t.Errorf("%s: nothing is predicted", tt.name)
		}
	}
	r := Request{Tokens: 400, Objective: Objective{TPOT: 0.05}}
	if v := s.Describe(&r, epoch, list, nil); !v[0].Late || v[1].Late || v[0].TPOT < 0.09 || v[1].TTFT < 0.3 {
		t.Errorf("verdicts %+v, want the first late alone, at 0.09 s a token at least", v)
	}
	var scratch Scratch
	if n := testing.AllocsPerRun(100, func() { s.Rank(&r, epoch, list, nil, 2, &scratch) }); n != 0 {
		t.Errorf("%v allocations a pick, want 0", n)
	}
}

// Exceeded returns the limits that shed a request or made all endpoints full. Each has the least of
// the endpoints' values that exceed it.
func TestExceeded_NamesTheLimitAndTheValueOverIt(t *testing.T) {
	pages := func(readings ...endpoint.Reading) []endpoint.Endpoint {
		list := endpoints(t, make([]server, len(readings))...)
		for i, r := range readings {
			list[i].BeginScrape().Succeed(r, epoch)
		}
		return list
	}
	// 8,000 tokens at each server take 2 s.
	busy := endpoints(t, server{inFlight: 16}, server{inFlight: 16})
	sheddable := Request{Tokens: 400, Stream: true, Criticality: Sheddable}
	asks := sheddable
	asks.Objective = Objective{TTFT: 0.5, TPOT: 60}
	for _, tt := range []struct {
		name string
		o    Options
		r    Request
		list []endpoint.Endpoint
		want []Excess
	}{
		{"tree", Options{Name: "tree"}, sheddable,
			pages(endpoint.Reading{Queue: 9}, endpoint.Reading{Queue: 7}, endpoint.Reading{Queue: 1, KV: .85}),
			[]Excess{
				{Limit: "waiting requests of strategy tree", Max: 5, Value: 7, Endpoints: 2},
				{Limit: "KV cache of strategy tree", Unit: "%", Max: 80, Value: 85, Endpoints: 1}}},
		{"full", Options{Full: Full{Queue: 5, KVCachePercent: 90, InFlight: 3}}, Request{},
			pages(endpoint.Reading{Queue: 9}, endpoint.Reading{Queue: 7}, endpoint.Reading{KV: .95}), []Excess{
				{Limit: "picker.full.queue", Max: 5, Value: 7, Endpoints: 2},
				{Limit: "picker.full.kvCachePercent", Unit: "%", Max: 90, Value: 95, Endpoints: 1}}},
		{"full of requests", Options{Full: Full{InFlight: 3}}, Request{}, busy,
			[]Excess{{Limit: "picker.full.inFlight", Max: 3, Value: 16, Endpoints: 2}}},
		{"shedAfter", Options{Name: "random", ShedAfter: 1500 * time.Millisecond}, sheddable, busy,
			[]Excess{{Limit: "picker.shedAfter", Unit: "s", Max: 1.5, Value: 2, Endpoint: "10.0.0.0:80"}}},
		{
			"objective", Options{}, asks, busy, []Excess{
				{Limit: "the request's TTFT objective", Unit: "ms", Max: 500, Value: 2000, Endpoint: "10.0.0.0:80"},
			},
		},
	} {
		var scratch Scratch
		s := strategy(t, tt.o)
		if c := s.Rank(&tt.r, epoch, tt.list, nil, 1, &scratch); len(c) > 0 {
			t.Fatalf("%s: %+v takes the request, want none", tt.name, c)
		}
		close := cmpopts.EquateApprox(0.1, 0) // predictions are approximate
		either := cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".Endpoint" },
			cmp.Comparer(func(a, b string) bool { return (a == "") == (b == "") }))
		if diff := cmp.Diff(tt.want, s.Exceeded(&scratch), close, either); diff != "" {
			t.Errorf("%s: exceeded (-want +got):\n%s", tt.name, diff)
		}
		free := pages(endpoint.Reading{})
		if c := s.Rank(&Request{}, epoch, free, nil, 1, &scratch); len(c) != 1 || s.Exceeded(&scratch) != nil {
			t.Errorf("%s: a free pool exceeds %+v, want a pick and nothing exceeded", tt.name, s.Exceeded(&scratch))
		}
	}
}

// With every strategy, the prediction for the chosen endpoint decides about a sheddable request.
func TestSLO_ShedAfter(t *testing.T) {
	for _, name := range Names() {
		// 8,000 tokens at each server take 2 s.
		list := endpoints(t, server{inFlight: 16}, server{inFlight: 16})
		off, on := strategy(t, Options{Name: name}),
			strategy(t, Options{Name: name, ShedAfter: 1500 * time.Millisecond})
		high := strategy(t, Options{Name: name, ShedAfter: 4 * time.Second})
		rank := func(s *Strategy, c Criticality) (int, string) {
			var scratch Scratch
			return len(s.Rank(&Request{Tokens: 400, Stream: true, Criticality: c}, epoch, list, nil, 1, &scratch)),
				scratch.Why
		}
		for _, s := range []*Strategy{off, high} {
			if n, _ := rank(s, Sheddable); n != 1 {
				t.Errorf("%s: shed although it need not be", name)
			}
		}
		for _, c := range []Criticality{"", Standard, Critical} {
			if n, _ := rank(on, c); n != 1 {
				t.Errorf("%s: a request of criticality %q is shed", name, c)
			}
		}
		if n, why := rank(on, Sheddable); n != 0 || why != whyWait {
			t.Errorf("%s: got %d endpoints, %q; want none, for %q", name, n, why, whyWait)
		}
		var scratch Scratch
		if c := on.Preview(&Request{Tokens: 400, Criticality: Sheddable}, epoch, list, nil, 1, &scratch); len(c) > 0 ||
			!scratch.Shed {
			t.Errorf("%s: explained otherwise", name)
		}
	}
}
