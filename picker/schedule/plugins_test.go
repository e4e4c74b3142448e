package schedule

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/penstock-project/penstock/manifests/endpointpicker"
	"github.com/penstock-project/penstock/picker/endpoint"
	"github.com/penstock-project/penstock/picker/prefix"
)

func profile(t testing.TB, plugins string) *endpointpicker.Profile {
	t.Helper()
	p, problems := endpointpicker.Parse("apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\n" + plugins)
	if p == nil || len(problems) > 0 {
		t.Fatal(problems)
	}
	return p
}

func one(t testing.TB, scorer, parameters string) *endpointpicker.Profile {
	return profile(t, fmt.Sprintf("plugins: [{type: %s, parameters: %s}]", scorer, parameters))
}

func state(queue, running int, kv float64) endpoint.State {
	return endpoint.State{Fresh: true, Queue: float64(queue), Running: float64(running), KV: kv}
}

func scores(t testing.TB, p *endpointpicker.Profile, r *Request, states []endpoint.State, cached ...int) string {
	t.Helper()
	c := make([]Candidate, len(states))
	for i := range c {
		c[i].lot = uint32(i)
		if i < len(cached) {
			c[i].Cached = cached[i]
		}
	}
	verdicts := make([]Verdict, len(c))
	chooser := newPlugins(Options{Profile: p, Random: rand.Uint64}).chooser
	chooser.explain(r, nil, c, states, verdicts)
	for i := range c {
		c[i].Score = 0
	}
	byPick := map[uint32]float64{}
	for _, k := range chooser.choose(r, nil, c, states, len(c)) {
		byPick[k.lot] = k.Score
	}
	var out []float64
	for i, v := range verdicts {
		if math.Abs(v.Score-byPick[uint32(i)]) > 1e-12 {
			t.Errorf("endpoint %d: score %g by pick, want %g as by explain", i, byPick[uint32(i)], v.Score)
		}
		out = append(out, math.Round(v.Score*1e4)/1e4)
	}
	return fmt.Sprint(out)
}

// The numbers follow from the formulas in llm-d's router, v0.10.
func TestPlugins_ScoresAreThoseOfLLMD(t *testing.T) {
	pages := []endpoint.State{state(0, 4, 0), state(5, 10, 0.25), state(20, 4, 1)}
	flights := []endpoint.State{{InFlight: 0, Unread: 0}, {InFlight: 2, Unread: 1 << 20},
		{InFlight: 8, Unread: 4 << 20}}
	lora := []endpoint.State{
		{Fresh: true, Adapters: &endpoint.Adapters{Running: []string{"x"}, Max: 1}},
		{Fresh: true, Adapters: &endpoint.Adapters{Running: []string{"y"}, Max: 2}},
		{Fresh: true, Adapters: &endpoint.Adapters{Running: []string{"y"}, Waiting: []string{"x"}, Max: 3}},
		{Fresh: true, Adapters: &endpoint.Adapters{Running: []string{"y"}, Waiting: []string{"x"}, Max: 2}},
		{Fresh: true, Adapters: &endpoint.Adapters{Running: []string{"y", "z"}, Max: 2}},
		{Fresh: true},
	}
	chain := make(prefix.Chain, 8) // 512 tokens
	for _, tt := range []struct {
		name               string
		scorer, parameters string
		r                  Request
		states             []endpoint.State
		cached             []int
		want               string
	}{
		{"queue: min-max", "queue-scorer", "{}", Request{}, pages, nil, "[1 0.75 0]"},
		{"queue: all equal", "queue-scorer", "{}", Request{}, []endpoint.State{state(3, 0, 0), state(3, 0, 0)}, nil,
			"[1 1]"},
		{"running: min-max", "running-requests-size-scorer", "{}", Request{}, pages, nil, "[1 0 1]"},
		{"free KV cache", "kv-cache-utilization-scorer", "{}", Request{}, pages, nil, "[1 0.75 0]"},
		{"load-aware: 128", "load-aware-scorer", "{}", Request{},
			append(pages[:3:3], state(128, 0, 0), state(500, 0, 0)), nil, "[0.5 0.4805 0.4219 0 0]"},
		{"load-aware: threshold", "load-aware-scorer", "{threshold: 10}", Request{}, pages, nil, "[0.5 0.25 0]"},
		{"active requests", "active-request-scorer", "{}", Request{}, flights, nil, "[1 0.75 0]"},
		{"active requests: idle and busy", "active-request-scorer", "{idleThreshold: 2, maxBusyScore: 0.5}", Request{},
			append(flights[:3:3], endpoint.State{InFlight: 4}), nil, "[1 1 0 0.25]"},
		{"tokens in flight", "token-load-scorer", "{}", Request{}, flights, nil, "[1 0.75 0]"},
		{"tokens of the request that are not cached", "token-load-scorer", "{queueThresholdTokens: 1000}",
			Request{Tokens: 600}, make([]endpoint.State, 3), []int{0, 500, 600}, "[0.4 0.9 1]"},
		{"prefix: share of the blocks", "prefix-cache-scorer", "{}", Request{Tokens: 520, Chain: chain},
			make([]endpoint.State, 3), []int{0, 128, 512}, "[0 0.25 1]"},
		{"prefix: no chain", "prefix-cache-scorer", "{}", Request{Tokens: 520}, make([]endpoint.State, 2), nil,
			"[0 0]"},
		{"prefix: length", "prefix-cache-scorer", "{matchLengthWeight: 0.5, matchLengthScaleTokens: 256}",
			Request{Chain: chain}, make([]endpoint.State, 3), []int{0, 128, 512}, "[0 0.25 1]"},
		{"prefix: length alone", "prefix-cache-scorer", "{matchLengthWeight: 1}", Request{Chain: chain},
			make([]endpoint.State, 2), []int{256, 512}, "[0.001 0.0039]"},
		{"lora", "lora-affinity-scorer", "{}", Request{Model: "x"}, lora, nil, "[1 0.8 0.8 0.6 0 0]"},
		{"stale pages count as the worst of the fresh", "queue-scorer", "{}", Request{},
			[]endpoint.State{state(1, 0, 0), state(5, 0, 0), {}}, nil, "[1 0 0]"},
		{"few fresh pages decide nothing", "queue-scorer", "{}", Request{}, []endpoint.State{state(1, 0, 0), {}, {}},
			nil, "[1 1 1]"},
		{"no fresh page", "kv-cache-utilization-scorer", "{}", Request{}, make([]endpoint.State, 2), nil, "[1 1]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := scores(t, one(t, tt.scorer, tt.parameters), &tt.r, tt.states, tt.cached...); got != tt.want {
				t.Errorf("%s %s: %s, want %s", tt.scorer, tt.parameters, got, tt.want)
			}
		})
	}
	// The default profile of llm-d: prefix 3, queue 2, KV cache 2.
	r := Request{Tokens: 520, Chain: chain}
	if got := scores(t, profile(t, llmd), &r, pages, 0, 128, 512); got != "[4 3.75 3]" {
		t.Errorf(`llm-d's default: %s, want "[4 3.75 3]"`, got)
	}
}

func TestPlugins_SessionAffinityScoresTheSessionsEndpoint(t *testing.T) {
	list := endpoints(t, server{}, server{}, server{})
	s := strategy(t, Options{Name: Plugins, Profile: one(t, "session-affinity-scorer", "{}")})
	r := Request{Session: Session{ID: 1, At: list[1].Addr}}
	for range 20 {
		if c := s.Rank(&r, epoch, list, nil, 1, &Scratch{}); number(&c[0]) != 1 || c[0].Score != 1 {
			t.Fatalf("at %d with score %g, want 1 and 1", number(&c[0]), c[0].Score)
		}
	}
	if v := s.Describe(&Request{}, epoch, list, nil); v[0].Score != 0 || v[1].Score != 0 {
		t.Errorf("without a session: got %+v, want scores of 0", v)
	}
	if o := (Options{Name: Plugins, Profile: one(t, "session-affinity-scorer", "{}")}); !UsesSessions(&o) ||
		UsesMetrics(&o) {
		t.Error("sessions are not read, or metrics are")
	}
}

const llmd = `
plugins: [{type: queue-scorer}, {type: kv-cache-utilization-scorer}, {type: prefix-cache-scorer}]
schedulingProfiles:
- name: default
  plugins:
  - {pluginRef: queue-scorer, weight: 2}
  - {pluginRef: kv-cache-utilization-scorer, weight: 2}
  - {pluginRef: prefix-cache-scorer, weight: 3}
`

// Every plugin type that a profile may have is implemented. Otherwise the first pick would panic.
func TestPlugins_EveryTypeHasAnImplementation(t *testing.T) {
	for _, name := range endpointpicker.Types(endpointpicker.Scorer) {
		if pluginScorers[name] == nil {
			t.Errorf("no scorer %s", name)
		}
	}
	for _, name := range endpointpicker.Types(endpointpicker.Filter) {
		if pluginFilters[name] == nil && pluginNarrowers[name] == nil {
			t.Errorf("no filter %s", name)
		}
	}
	for _, name := range endpointpicker.Types(endpointpicker.Picker) {
		if choices[name] == nil {
			t.Errorf("no choice %s", name)
		}
	}
}

func shares(t *testing.T, picker string, inFlight ...int) (out []int) {
	servers := make([]server, len(inFlight))
	for i, n := range inFlight {
		servers[i] = server{inFlight: n}
	}
	list := endpoints(t, servers...)
	s := strategy(t,
		Options{Name: Plugins, Profile: profile(t, "plugins: [{type: active-request-scorer}, {type: "+picker+"}]")})
	count := make([]float64, len(inFlight))
	for range 10_000 {
		for _, c := range s.Rank(&Request{}, epoch, list, nil, 1, &Scratch{}) {
			count[number(&c)]++
		}
	}
	for _, n := range count {
		out = append(out, int(math.Round(n/100)))
	}
	return out
}

func TestPlugins_ChoicesFollowScores(t *testing.T) {
	near := func(got []int, want ...int) bool {
		for i := range want {
			if d := got[i] - want[i]; d < -2 || d > 2 {
				return false
			}
		}
		return true
	}
	for _, tt := range []struct {
		picker   string
		inFlight []int // at most 4, so that a score is 1 - inFlight/4
		want     []int
	}{
		{"max-score-picker", []int{0, 1, 4}, []int{100, 0, 0}},
		{"max-score-picker", []int{3, 3, 4}, []int{50, 50, 0}},
		{"random-picker", []int{0, 1, 4}, []int{33, 33, 33}},
		{"weighted-random-picker", []int{2, 1, 4}, []int{40, 60, 0}},  // scores 0.5 and 0.75
		{"weighted-random-picker", []int{4, 4, 4}, []int{33, 33, 33}}, // all scores 0
		{"power-of-two-picker", []int{0, 1, 4}, []int{67, 33, 0}},     // best in 2, 1 or 0 of the 3 pairs
		// Each endpoint is the best in 3, 2, 1 or 0 of the 6 pairs.
		{"power-of-two-picker", []int{1, 2, 3, 4}, []int{50, 33, 17, 0}},
		// The scores are 1, 0.5, 0.25 and 0.
		{"weighted-random-picker", []int{0, 2, 3, 4}, []int{57, 29, 14, 0}},
	} {
		if got := shares(t, tt.picker, tt.inFlight...); !near(got, tt.want...) {
			t.Errorf("%s with %v in flight: %v %%, want %v", tt.picker, tt.inFlight, got, tt.want)
		}
	}
}

// Each choice has distinct further endpoints for retries.
func TestPlugins_ChoicesNameFallbacks(t *testing.T) {
	list := endpoints(t, server{inFlight: 1}, server{inFlight: 2}, server{draining: true}, server{})
	for _, picker := range endpointpicker.Types(endpointpicker.Picker) {
		s := strategy(t,
			Options{Name: Plugins, Profile: profile(t, "plugins: [{type: active-request-scorer}, {type: "+picker+"}]")})
		for range 50 {
			got := ranked(s, list, 9)
			seen := map[byte]bool{}
			for _, n := range got {
				seen[n] = true
			}
			if len(got) != 3 || len(seen) != 3 || seen[2] {
				t.Fatalf("%s: got %v, want three endpoints, once each, the last without 2", picker, got)
			}
		}
	}
}

func TestPlugins_LabelSelectorFilters(t *testing.T) {
	registry := endpoint.NewRegistry(endpoint.Config{Jitter: func() float64 { return 0.5 }})
	var specs []endpoint.Spec
	for i, labels := range []map[string]string{{"gpu": "h100"}, {"gpu": "a100", "zone": "a"}, nil} {
		specs = append(specs,
			endpoint.Spec{Addr: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}), 80), Labels: labels})
	}
	list := registry.Snapshot(endpoint.Metrics{}, nil, specs).Endpoints
	for parameters, want := range map[string]string{
		"{}":                         "[0 1 2]",
		"{matchLabels: {gpu: h100}}": "[0]",
		"{matchExpressions: [{key: gpu, operator: In, values: [a100, l4]}]}": "[1]",
		"{matchExpressions: [{key: zone, operator: DoesNotExist}]}":          "[0 2]",
		"{matchLabels: {gpu: t4}}":                                           "[]",
	} {
		s := strategy(t,
			Options{
				Name:    Plugins,
				Profile: profile(t, "plugins: [{type: label-selector-filter, name: gpus, parameters: "+parameters+"}]"),
			})
		scratch := &Scratch{}
		got := []byte{}
		for _, c := range s.Rank(&Request{}, epoch, list, nil, 9, scratch) {
			got = append(got, number(&c))
		}
		slices.Sort(got)
		if sorted := fmt.Sprint(got); sorted != want || scratch.Eligible != len(got) {
			t.Errorf("%s: %s with %d eligible, want %s", parameters, sorted, scratch.Eligible, want)
		}
	}
	s := strategy(t,
		Options{
			Name: Plugins,
			Profile: profile(t,
				"plugins: [{type: label-selector-filter, name: gpus, parameters: {matchLabels: {gpu: h100}}}, {type: "+
					"active-request-scorer}]"),
		})
	verdicts := s.Describe(&Request{}, epoch, list, nil)
	if verdicts[0].Out != "" || verdicts[0].Score != 1 || verdicts[1].Out != "gpus" || verdicts[1].Scores != nil {
		t.Errorf("verdicts %+v, want the first in with score 1, and the second out by gpus without scores", verdicts)
	}
}

// A prompt counts as cached from its pick on. So requests with one prefix go to one server until
// other servers have less load.
func TestPlugins_PrefixAndTokensInFlightAreCounted(t *testing.T) {
	prefixes := prefix.New(prefix.Config{})
	registry := endpoint.NewRegistry(endpoint.Config{Jitter: func() float64 { return 0.5 }, Prefixes: prefixes})
	var specs []endpoint.Spec
	for i := range 4 {
		specs = append(specs, endpoint.Spec{Addr: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}), 80)})
	}
	list := registry.Snapshot(endpoint.Metrics{Off: true}, nil, specs).Endpoints
	leases := endpoint.NewLeases("me", time.Hour)
	s := strategy(t, Options{Name: Plugins, Prefixes: prefixes, Profile: profile(t, `
plugins: [{type: prefix-cache-scorer}, {type: token-load-scorer, parameters: {queueThresholdTokens: 4000}}]
schedulingProfiles: [{plugins: [{pluginRef: prefix-cache-scorer}, {pluginRef: token-load-scorer, weight: 3}]}]
`)})
	chain := make(prefix.Chain, 8)
	for i := range chain {
		chain[i] = uint64(i + 1)
	}
	var got []int
	for i := range 8 {
		r := Request{Tokens: 1500, Chain: chain}
		c := s.Rank(&r, epoch, list, nil, 1, &Scratch{})
		if i > 0 && got[i-1] == int(number(&c[0])) && c[0].Cached != 512 {
			t.Errorf("pick %d: %d tokens cached, want 512 at the server of the pick before", i, c[0].Cached)
		}
		leases.Open(c[0].Endpoint, endpoint.Holder{}, c[0].Work(&r), 0, epoch)
		prefixes.Add(c[0].Endpoint.Load().Prefixes(), chain)
		got = append(got, int(number(&c[0])))
	}
	// A server without the prefix scores 3 (1 - 1500/4000) = 1.875. With the prefix, it scores 1 +
	// 3 (1 - (1500+988)/4000) = 2.13 with one request in flight, and 1 + 3 (1 -
	// (1500+988+988)/4000) = 1.39 with two.
	for i := 0; i < len(got); i += 2 {
		if got[i] != got[i+1] || slices.Contains(got[:i], got[i]) {
			t.Errorf("picks %v: want two for each server, one after the other", got)
		}
	}
}

func BenchmarkPlugins100(b *testing.B) {
	servers := make([]server, 100)
	for i := range servers {
		servers[i] = server{queue: i % 3, running: i % 17, kv: float64(i%10) / 10, inFlight: i % 7, stale: i%20 == 0}
	}
	list := endpoints(b, servers...)
	s := strategy(b, Options{Name: Plugins, Profile: profile(b, llmd)})
	var scratch Scratch
	r, now := Request{Tokens: 2000, Stream: true, Chain: make(prefix.Chain, 31)}, epoch
	b.ReportAllocs()
	for b.Loop() {
		now = now.Add(50 * time.Microsecond)
		c := s.Rank(&r, now, list, nil, 3, &scratch)
		_ = c[0].Work(&r)
	}
	b.ReportMetric(10_000, "limit-ns/op")
}

func TestPlugins_RankAllocatesNothing(t *testing.T) {
	list := endpoints(t, server{queue: 1}, server{inFlight: 2}, server{kv: .5})
	for _, picker := range endpointpicker.Types(endpointpicker.Picker) {
		s := strategy(t, Options{Name: Plugins, Profile: profile(t, `
plugins: [{type: queue-scorer}, {type: kv-cache-utilization-scorer}, {type: running-requests-size-scorer}, `+
			`{type: active-request-scorer}, {type: token-load-scorer},
  {type: load-aware-scorer}, {type: prefix-cache-scorer}, {type: lora-affinity-scorer}, `+
			`{type: label-selector-filter}, {type: `+picker+`}]`)})
		var scratch Scratch
		r := Request{Model: "m", Tokens: 2000, Chain: make(prefix.Chain, 31)}
		if n := testing.AllocsPerRun(100, func() { s.Rank(&r, epoch, list, nil, 2, &scratch) }); n != 0 {
			t.Errorf("%s: %g allocations, want 0", picker, n)
		}
	}
}
