package schedule

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/penstock-project/penstock/picker/endpoint"
	"github.com/penstock-project/penstock/picker/prefix"
)

func labeled(prefixes *prefix.Index, all ...map[string]string) []endpoint.Endpoint {
	registry := endpoint.NewRegistry(endpoint.Config{Jitter: func() float64 { return 0.5 }, Prefixes: prefixes})
	var specs []endpoint.Spec
	for i, labels := range all {
		specs = append(specs,
			endpoint.Spec{Addr: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}), 80), Labels: labels})
	}
	return registry.Snapshot(endpoint.Metrics{Off: true}, nil, specs).Endpoints
}

func order(s *Strategy, r *Request, list []endpoint.Endpoint) string {
	var out []byte
	for _, c := range s.Rank(r, epoch, list, nil, len(list), &Scratch{}) {
		out = append(out, number(&c))
	}
	return fmt.Sprint(out)
}

func chainOf(n int) prefix.Chain {
	chain := make(prefix.Chain, n)
	for i := range chain {
		chain[i] = uint64(i + 1)
	}
	return chain
}

// The endpoint that has cached the prompt comes first, even before a higher score, but not if its
// first token would come much later. The other endpoints follow, for retries.
func TestPlugins_PrefixAffinityKeepsTheEndpointThatHasThePrompt(t *testing.T) {
	prefixes := prefix.New(prefix.Config{})
	list := labeled(prefixes, nil, nil, nil)
	chain := chainOf(8)
	prefixes.Add(list[1].Load().Prefixes(), chain)
	leases := endpoint.NewLeases("me", time.Hour)
	busy := endpoint.Work{Tokens: 3000, Rate: defaultRate}
	leases.Open(&list[1], endpoint.Holder{}, busy, 0, epoch)
	leases.Open(&list[2], endpoint.Holder{}, endpoint.Work{}, 0, epoch)
	doc := func(parameters string) *Strategy {
		return strategy(t,
			Options{Name: Plugins, Prefixes: prefixes,
				Profile: profile(t,
					"plugins: [{type: active-request-scorer}, {type: prefix-cache-affinity-filter, name: sticky, "+
						"parameters: "+parameters+"}]")})
	}
	r := &Request{Tokens: 520, Chain: chain}
	s := doc("{peakPrefillThroughput: 1000}")
	for range 20 {
		if got := order(s, r, list); got != "[1 0 2]" {
			t.Fatalf(`order %s: 3 s are within the penalty of 18 s, want "[1 0 2]"`, got)
		}
	}
	if v := s.Describe(r, epoch, list, nil); v[0].Out != "sticky" || v[1].Out != "" || v[2].Out != "sticky" ||
		len(v[1].Scores) != 1 {
		t.Errorf("verdicts %+v, want 1 alone in, and 0 and 2 out as sticky", v)
	}
	for parameters, first := range map[string]string{
		"{peakPrefillThroughput: 1000, maxTTFTPenaltyMs: 2000}": "[0 ",
		"{peakPrefillThroughput: 1000, maxTTFTPenaltyMs: 0}":    "[1 ",
		"{explorationProbability: 1}":                           "[0 ",
		"{affinityThreshold: 0}":                                "[0 ",
	} {
		if got := order(doc(parameters), r, list); !strings.HasPrefix(got, first) {
			t.Errorf("%s: %s, want %s", parameters, got, first)
		}
	}
	if got := order(s, &Request{Tokens: 520, Chain: prefix.Chain{91, 92, 93, 94, 95, 96, 97, 98}},
		list); !strings.HasPrefix(got, "[0 ") {
		t.Errorf(`another prompt: %s, want the beginning "[0 "`, got)
	}
}

func TestPlugins_FiltersLeaveNoRequestWithoutAnEndpoint(t *testing.T) {
	list := labeled(nil, map[string]string{"llm-d.ai/context-length-range": "0-1000", "zone": "a"},
		map[string]string{"llm-d.ai/context-length-range": "1000-9000", "zone": "b"}, nil)
	leases := endpoint.NewLeases("me", time.Hour)
	for i, n := range []int{2, 3, 6} {
		for range n {
			leases.Open(&list[i], endpoint.Holder{}, endpoint.Work{}, 0, epoch)
		}
	}
	session := func(i int) *Request { return &Request{Session: Session{ID: 1, At: list[i].Addr}} }
	gone := &Request{Session: Session{ID: 1, At: netip.MustParseAddrPort("10.9.9.9:80")}}
	for _, c := range []struct {
		name, plugin string
		r            *Request
		want         string
	}{
		{"session", "{type: session-affinity-filter}", session(2), "[2 0 1]"},
		{"session elsewhere", "{type: session-affinity-filter}", gone, "[0 1 2]"},
		{"no session", "{type: session-affinity-filter}", &Request{}, "[0 1 2]"},
		{"short prompt", "{type: context-length-aware, parameters: {enableFiltering: true}}", &Request{Tokens: 500},
			"[0 2 1]"},
		{"long prompt", "{type: context-length-aware, parameters: {enableFiltering: true}}", &Request{Tokens: 5000},
			"[1 2 0]"},
		{"limits", "{type: utilization-filter, parameters: {conditions: [{metric: active-requests, maxValue: 2}]}}",
			&Request{}, "[0]"},
		{
			"limits of none",
			"{type: utilization-filter, parameters: {conditions: [{metric: active-requests, maxValue: 1}]}}",
			&Request{}, "[]",
		},
		{
			"limits of none, with all instead",
			"{type: utilization-filter, parameters: {fallbackOnEmpty: true, conditions: [{metric: active-requests, " +
				"maxValue: 1}]}}", &Request{}, "[0 1 2]",
		},
		{
			"preferred",
			"{type: utilization-filter, parameters: {fallbackOnEmpty: true, conditions: [{metric: active-requests, " +
				"maxValue: 3}]}}", &Request{}, "[0 1 2]",
		},
		{"concurrency", "{type: concurrency-detector, parameters: {maxConcurrency: 5}}", &Request{}, "[0 1]"},
		{"headroom", "{type: concurrency-detector, parameters: {maxConcurrency: 5, headroom: 0.4}}", &Request{},
			"[0 1 2]"},
		{"label", "{type: by-label, parameters: {label: zone, validValues: [b], allowsNoLabel: true}}", &Request{},
			"[1 2]"},
		{"label required", "{type: by-label, parameters: {label: zone, validValues: [b]}}", &Request{}, "[1]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := profile(t, "plugins: [{type: active-request-scorer}, "+
				strings.Replace(c.plugin, "{", "{name: it, ", 1)+"]\n"+
				"schedulingProfiles: [{plugins: [{pluginRef: active-request-scorer, weight: 9}, {pluginRef: it}]}]")
			if got := order(strategy(t, Options{Name: Plugins, Profile: p}), c.r, list); got != c.want {
				t.Errorf("order %s, want %s", got, c.want)
			}
		})
	}
}

// The numbers follow from the formula of llm-d's router, v0.10.
func TestPlugins_ContextLengthScoresTheTightestRange(t *testing.T) {
	list := labeled(nil, map[string]string{"l": "0-2048"}, map[string]string{"l": "0-10000"},
		map[string]string{"l": "4000-8000"}, map[string]string{"l": "x"}, nil)
	s := strategy(t, Options{Name: Plugins, Profile: one(t, "context-length-aware", "{label: l}")})
	var got []string
	for _, v := range s.Describe(&Request{Tokens: 1024}, epoch, list, nil) {
		got = append(got, fmt.Sprintf("%.3f", v.Score))
	}
	if want := "0.812 0.733 0.075 0.000 0.500"; strings.Join(got, " ") != want {
		t.Errorf("%s, want %s", strings.Join(got, " "), want)
	}
}

func TestPlugins_NoHitLRUSpreadsPromptsThatNoEndpointHas(t *testing.T) {
	prefixes := prefix.New(prefix.Config{})
	list := labeled(prefixes, nil, nil, nil)
	s := strategy(t, Options{Name: Plugins, Prefixes: prefixes, Profile: profile(t, `
plugins: [{type: prefix-cache-scorer}, {type: no-hit-lru-scorer}]
schedulingProfiles: [{plugins: [{pluginRef: prefix-cache-scorer, weight: 3}, {pluginRef: no-hit-lru-scorer, `+
		`weight: 2}]}]`)})
	first := func(r *Request) byte { return number(&s.Rank(r, epoch, list, nil, 1, &Scratch{})[0]) }
	var turns []byte
	for i := range 9 {
		turns = append(turns, first(&Request{Tokens: 200, Chain: prefix.Chain{uint64(100 + i), 2, 3}}))
	}
	for i := 3; i < len(turns); i++ {
		if turns[i] != turns[i-3] {
			t.Fatalf("turns %v, want each endpoint with one prompt of three", turns)
		}
	}
	slices.Sort(turns[:3])
	if fmt.Sprint(turns[:3]) != "[0 1 2]" {
		t.Errorf("turns %v, want each endpoint once in the first three", turns)
	}
	last := turns[8]
	prefixes.Add(list[last].Load().Prefixes(), chainOf(3))
	if got := first(&Request{Tokens: 200, Chain: chainOf(3)}); got != last {
		t.Errorf("a prompt that %d has goes to %d, want the former", last, got)
	}
	for range 5 { // Preview changes no turn
		s.Preview(&Request{}, epoch, list, nil, 1, &Scratch{})
	}
	if got := first(&Request{Tokens: 200, Chain: prefix.Chain{7, 8, 9}}); got != turns[6] {
		t.Errorf("the next turn is %d, want %d", got, turns[6])
	}
}

func TestPlugins_ImagesGoWhereTheyWere(t *testing.T) {
	list := labeled(nil, nil, nil, nil, nil)
	s := strategy(t, Options{Name: Plugins, Profile: one(t, "mm-embeddings-cache-scorer", "{}")})
	first := func(items ...uint64) byte {
		return number(&s.Rank(&Request{Items: items}, epoch, list, nil, 1, &Scratch{})[0])
	}
	at := first(1, 2)
	for range 20 {
		if got := first(2, 1); got != at {
			t.Fatalf("the same items went to %d, want %d", got, at)
		}
	}
	v := s.Describe(&Request{Items: []uint64{1, 2, 3, 4}}, epoch, list, nil)
	if v[at].Score != 0.5 {
		t.Errorf("half of the images are known: %+v, want Score 0.5", v[at])
	}
}

func TestPlugins_HeaderPrefersTheLabel(t *testing.T) {
	list := labeled(nil, map[string]string{"slice": "0"}, map[string]string{"slice": "1"}, nil)
	p := one(t, "header-label-affinity-scorer", "{headerName: x-slice, labelKey: slice}")
	if !p.Headers {
		t.Error("the profile does not read headers")
	}
	s := strategy(t, Options{Name: Plugins, Profile: p})
	for value, want := range map[string]string{"1": "[0 1 0]", "": "[0 0 0]", "7": "[0 0 0]"} {
		var got []float64
		r := &Request{Header: func(name string) []byte { return []byte(map[string]string{"x-slice": value}[name]) }}
		for _, v := range s.Describe(r, epoch, list, nil) {
			got = append(got, v.Score)
		}
		if fmt.Sprint(got) != want {
			t.Errorf("%q: %v, want %s", value, got, want)
		}
	}
}

func TestPlugins_HeaderNamesTheProfile(t *testing.T) {
	list := labeled(nil, map[string]string{"llm-d.ai/role": "encode"}, map[string]string{"llm-d.ai/role": "prefill"},
		map[string]string{"llm-d.ai/role": "decode"})
	s := strategy(t, Options{Name: Plugins, Profile: profile(t, `
plugins: [{type: encode-filter}, {type: prefill-filter}, {type: decode-filter}, {type: active-request-scorer}, `+
		`{type: header-profile-handler}]
schedulingProfiles:
- {name: encode, plugins: [{pluginRef: encode-filter}, {pluginRef: active-request-scorer}]}
- {name: prefill, plugins: [{pluginRef: prefill-filter}, {pluginRef: active-request-scorer}]}
- {name: decode, plugins: [{pluginRef: decode-filter}, {pluginRef: active-request-scorer}]}`)})
	for name, want := range map[string]string{"encode": "[0]", "prefill": "[1]", "decode": "[2]", "": "[2]",
		"other": "[2]"} {
		if got := order(s, &Request{Profile: name}, list); got != want {
			t.Errorf("profile %q: %s, want %s", name, got, want)
		}
	}
}

// The predicted latency of an endpoint depends on its requests in flight.
func TestPlugins_LatencyPrefersTheEndpointInTime(t *testing.T) {
	list := endpoints(t, server{inFlight: 9, kv: 0.5}, server{inFlight: 1, kv: 0.5}, server{inFlight: 4, kv: 0.5})
	s := strategy(t,
		Options{
			Name: Plugins,
			Profile: profile(t,
				"plugins: [{type: latency-scorer}, {type: slo-headroom-tier-filter, name: tier, parameters: "+
					"{epsilonExploreNeg: 0}}, {type: latency-slo-admitter}]"),
		})
	r := &Request{Tokens: 1000, Stream: true}
	if got := order(s, r, list); got != "[1 2 0]" {
		t.Fatalf(`without an objective: %s, want "[1 2 0]"`, got)
	}
	v := s.Describe(r, epoch, list, nil)
	var ttft []float64
	for _, c := range s.Rank(r, epoch, list, nil, 3, &Scratch{}) {
		ttft = append(ttft, c.TTFT)
	}
	if !(ttft[0] < ttft[1] && ttft[1] < ttft[2]) || v[1].Score <= v[2].Score {
		t.Fatalf("predicted %v, verdicts %+v; want rising times, and a higher score for 1 than for 2", ttft, v)
	}
	within := *r
	within.Objective.TTFT = (ttft[1] + ttft[2]) / 2
	if got := order(s, &within, list); got != "[2 1 0]" {
		t.Errorf(`2 meets the objective most closely: %s, want "[2 1 0]"`, got)
	}
	if v := s.Describe(&within, epoch, list, nil); v[0].Out != "tier" {
		t.Errorf("verdicts %+v, want the first out by its tier", v)
	}
	none := *r
	none.Objective.TTFT = ttft[0] / 2
	scratch := &Scratch{}
	if got := s.Rank(&none, epoch, list, nil, 1, scratch); len(got) != 1 || scratch.Shed {
		t.Error("a request that is not sheddable goes on")
	}
	none.Criticality = Sheddable
	if got := s.Rank(&none, epoch, list, nil, 1, scratch); len(got) != 0 || !scratch.Shed ||
		scratch.Why != whyObjective {
		t.Errorf("%d endpoints, shed %v: %s; want none, true, %s", len(got), scratch.Shed, scratch.Why, whyObjective)
	}
	idle := endpoints(t, server{inFlight: 9, kv: 0.5}, server{kv: 0.5})
	if got := s.Rank(&none, epoch, idle, nil, 1, scratch); len(got) != 1 || number(&got[0]) != 1 {
		t.Error("an idle endpoint takes it")
	}
}

func TestPlugins_ProbabilisticAdmitterShedsBySaturation(t *testing.T) {
	for _, c := range []struct {
		queue       int
		criticality Criticality
		low, high   int
	}{{0, Sheddable, 0, 0}, {1, Sheddable, 50, 150}, {5, Sheddable, 1000, 1000}, {5, Standard, 0, 0}} {
		list := endpoints(t, server{queue: c.queue}, server{queue: c.queue})
		s := strategy(t,
			Options{
				Name: Plugins, Profile: profile(t, "plugins: [{type: queue-scorer}, {type: probabilistic-admitter}]"),
			})
		shed := 0
		for range 1000 {
			scratch := &Scratch{}
			if len(s.Rank(&Request{Criticality: c.criticality}, epoch, list, nil, 1, scratch)) == 0 && scratch.Shed {
				shed++
			}
		}
		if shed < c.low || shed > c.high { // 300 x (1/5)^5 % = 9.6 %
			t.Errorf("queue %d, %s: %d of 1000 are shed, want at least %d and at most %d",
				c.queue, c.criticality, shed, c.low, c.high)
		}
	}
}
