package picker

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/penstock-project/penstock/manifests/endpointpicker"
	"github.com/penstock-project/penstock/picker/accesslog"
	"github.com/penstock-project/penstock/picker/endpoint"
	"github.com/penstock-project/penstock/picker/extproc"
	"github.com/penstock-project/penstock/picker/prefix"
	"github.com/penstock-project/penstock/picker/request"
	"github.com/penstock-project/penstock/picker/schedule"
)

func stagesDoc(deciders string) string {
	return `plugins:
- {type: decode-filter}
- {type: prefill-filter}
- {type: encode-filter}
- {type: active-request-scorer}
- {type: max-score-picker, name: two, parameters: {maxNumOfEndpoints: 2}}
- {type: prefix-based-pd-decider, parameters: {nonCachedTokens: 512}}
- {type: always-disagg-multimodal-decider}
- {type: disagg-profile-handler, parameters: {deciders: {` + deciders + `}}}
schedulingProfiles:
- {name: decode, plugins: [{pluginRef: decode-filter}, {pluginRef: active-request-scorer}]}
- {name: prefill, plugins: [{pluginRef: prefill-filter}, {pluginRef: active-request-scorer}]}
- {name: encode, plugins: [{pluginRef: encode-filter}, {pluginRef: two}]}
`
}

const allStages = "prefill: prefix-based-pd-decider, encode: always-disagg-multimodal-decider"

func withRoles(pairs ...string) (out []endpoint.Spec) {
	for i := 0; i < len(pairs); i += 2 {
		s := specs(pairs[i])[0]
		if pairs[i+1] != "" {
			s.Labels = map[string]string{endpointpicker.RoleLabel: pairs[i+1]}
		}
		out = append(out, s)
	}
	return out
}

func longPrompt(tokens int, chain ...uint64) *extproc.Request {
	return &extproc.Request{Pool: "ns/pool", Gateway: "ns/gw", Headers: &extproc.Message{},
		Facts: request.Facts{Kind: request.Completions, Model: "m", Size: 4 * tokens, Tokens: tokens,
			Chain: prefix.Chain(chain)}}
}

func named(a extproc.Answer) map[string]string {
	out := map[string]string{}
	for _, h := range a.Headers {
		out[h.Name] = h.Value
	}
	return out
}

func TestDisagg_StagesAreNamed(t *testing.T) {
	p := runPicker(t, Config{})
	setPools(t, p, Pool{ID: poolID("ns/pool"), Strategy: "plugins", Plugins: parsed(t, stagesDoc(allStages)),
		Endpoints: withRoles("10.0.0.1:80", "decode", "10.0.0.2:80", "prefill", "[fd00::3]:80", "encode", "10.0.0.4:80",
			"encode", "10.0.0.5:80", "other")})
	for _, tt := range []struct {
		tokens int
		media  bool
		want   map[string]string
	}{
		{100, false, map[string]string{}},
		{600, false, map[string]string{"x-prefiller-host-port": "10.0.0.2:80"}},
		{100, true, map[string]string{"x-encoder-hosts-ports": ""}},
		{600, true, map[string]string{"x-encoder-hosts-ports": "", "x-prefiller-host-port": "10.0.0.2:80"}},
	} {
		r := longPrompt(tt.tokens)
		r.Facts.Media = tt.media
		a := p.Pick(t.Context(), r)
		got := named(a)
		if tt.media {
			if e := got["x-encoder-hosts-ports"]; e != "10.0.0.4:80,[fd00::3]:80" && e != "[fd00::3]:80,10.0.0.4:80" {
				t.Errorf("encoders %q, want 10.0.0.4:80 and [fd00::3]:80", e)
			}
			got["x-encoder-hosts-ports"] = ""
		}
		if diff := cmp.Diff(tt.want, got); diff != "" || a.Endpoints.String() != "10.0.0.1:80" {
			t.Errorf("%d tokens, media %v, at %s, want 10.0.0.1:80; headers (-want +got):\n%s",
				tt.tokens, tt.media, a.Endpoints, diff)
		}
		a.Track.End()
	}
}

// A request counts at its prefill server until the first token.
func TestDisagg_PrefillServerCountsTheRequestUntilItsAnswer(t *testing.T) {
	p := runPicker(t, Config{})
	list := withRoles("10.0.0.1:80", "decode", "10.0.0.2:80", "prefill", "10.0.0.3:80", "prefill")
	setPools(t, p,
		Pool{ID: poolID("ns/pool"), Strategy: "plugins", Plugins: parsed(t, stagesDoc(allStages)), Endpoints: list})
	state := func(address string) endpoint.State {
		for i, e := range p.pool("ns/pool").snapshot.Endpoints {
			if e.Text == address {
				return p.pool("ns/pool").snapshot.Endpoints[i].State()
			}
		}
		t.Fatal(address)
		return endpoint.State{}
	}
	check := func(what, address string, inFlight, unread int64) {
		t.Helper()
		if s := state(address); s.InFlight != inFlight || s.Unread != unread {
			t.Errorf("%s: %s has %d in flight and %d tokens, want %d and %d", what, address, s.InFlight, s.Unread,
				inFlight, unread)
		}
	}
	first, second := p.Pick(t.Context(), longPrompt(600)), p.Pick(t.Context(), longPrompt(700))
	a, b := named(first)["x-prefiller-host-port"], named(second)["x-prefiller-host-port"]
	if a == b {
		t.Fatalf("both prompts went to %s, want the second at another server: this one reads the first", a)
	}
	check("both wait", "10.0.0.1:80", 2, 0)
	check("both wait", a, 1, 600)
	check("both wait", b, 1, 700)
	entry := accesslog.Entry{Pool: "ns/pool", Gateway: "ns/gw", Lease: first.Lease.String(), Served: "10.0.0.1:80",
		Open: true, Status: 200, Body: true, FirstByte: time.Second}
	p.Log(entry)
	check("the first is answered", a, 0, 0)
	check("the first is answered", b, 1, 700)
	check("the first is answered", "10.0.0.1:80", 2, 0)
	entry.Open, entry.LastByte = false, 2*time.Second
	p.Log(entry)
	// the second request has failed
	p.Log(accesslog.Entry{Pool: "ns/pool", Gateway: "ns/gw", Lease: second.Lease.String()})
	for _, e := range list {
		check("both have ended", e.Addr.String(), 0, 0)
	}
	if n := p.leases.Len(); n != 0 {
		t.Errorf("%d leases are open, want 0", n)
	}
}

// If no prefill server is free, the decode server reads the prompt, and the request passes.
func TestDisagg_FullOrGonePrefillLeavesDecodeAlone(t *testing.T) {
	p := runPicker(t, Config{})
	pool := Pool{ID: poolID("ns/pool"), Strategy: "plugins", Plugins: parsed(t, stagesDoc(allStages)),
		Full:      schedule.Full{InFlight: 1},
		Endpoints: withRoles("10.0.0.1:80", "decode", "10.0.0.2:80", "", "10.0.0.3:80", "prefill")}
	setPools(t, p, pool)
	if got := named(p.Pick(t.Context(), longPrompt(600)))["x-prefiller-host-port"]; got != "10.0.0.3:80" {
		t.Errorf(`prefill at %q, want "10.0.0.3:80"`, got)
	}
	a := p.Pick(t.Context(), longPrompt(600))
	if got := named(a); a.Status != 0 || len(got) != 0 {
		t.Errorf("a full server of prefill: %d %v, want 0 and none", a.Status, got)
	}
	if a := p.Pick(t.Context(), longPrompt(600)); a.Status != 429 {
		t.Errorf("full servers of decode: %d, want 429", a.Status)
	}
	for _, e := range []string{"10.0.0.1:80", "10.0.0.2:80", "10.0.0.3:80"} {
		if n := inFlight(p, e); n != 1 {
			t.Errorf("%s has %d in flight, want 1", e, n)
		}
	}
	pool.Full, pool.Endpoints[2].Draining = schedule.Full{}, true
	setPools(t, p, pool)
	if a := p.Pick(t.Context(), longPrompt(600)); a.Status != 0 || len(named(a)) != 0 {
		t.Errorf("a draining server of prefill: %d %v, want 0 and none", a.Status, named(a))
	}
}

// A prompt that the decode server has cached needs no prefill server. After a prefill, both servers
// have the prompt cached.
func TestDisagg_CachedPromptHasNoPrefill(t *testing.T) {
	p := runPicker(t, Config{})
	setPools(t, p,
		Pool{ID: poolID("ns/pool"), Strategy: "plugins", Plugins: parsed(t, stagesDoc(allStages)),
			Endpoints: withRoles("10.0.0.1:80", "decode", "10.0.0.2:80", "prefill")})
	var chain []uint64
	for i := range 20 {
		chain = append(chain, uint64(1000+i))
	}
	if got := named(p.Pick(t.Context(), longPrompt(1200, chain...))); got["x-prefiller-host-port"] != "10.0.0.2:80" {
		t.Errorf("a new prompt: got %v, want prefill at 10.0.0.2:80", got)
	}
	if got := named(p.Pick(t.Context(), longPrompt(1200, chain...))); len(got) != 0 {
		t.Errorf("a cached one: %v, want none", got)
	}
	pool := p.pool("ns/pool")
	for i := range pool.snapshot.Endpoints {
		cached := make([]int32, 1)
		p.prompts.prefixes.Match(prefix.Chain(chain), []*prefix.Server{pool.snapshot.Endpoints[i].Load().Prefixes()},
			cached)
		if cached[0] == 0 {
			t.Errorf("%s has nothing cached, want the prompt's blocks", pool.snapshot.Endpoints[i].Text)
		}
	}
}

func TestDisagg_ServerOfBothRolesNamesNoOther(t *testing.T) {
	p := runPicker(t, Config{})
	setPools(t, p,
		Pool{ID: poolID("ns/pool"), Strategy: "plugins", Plugins: parsed(t, stagesDoc(allStages)),
			Endpoints: withRoles("10.0.0.1:80", "prefill-decode")})
	if got := named(p.Pick(t.Context(), longPrompt(600))); len(got) != 0 || inFlight(p, "10.0.0.1:80") != 1 {
		t.Errorf("%v, %d in flight, want none and 1", got, inFlight(p, "10.0.0.1:80"))
	}
}

func TestDisagg_PrimaryPortPassesOnToTheRank(t *testing.T) {
	p := runPicker(t, Config{})
	pool := Pool{ID: poolID("ns/pool"), Strategy: "plugins", Fallbacks: 2,
		Endpoints: specs("10.0.0.1:8000", "10.0.0.1:8001", "10.0.0.2:8000", "10.0.0.2:8001"),
		Plugins:   parsed(t, "plugins: [{type: active-request-scorer}, {type: data-parallel-profile-handler}]")}
	setPools(t, p, pool)
	seen := map[string]bool{}
	for range 4 {
		a := p.Pick(t.Context(), longPrompt(10))
		rank := named(a)["x-data-parallel-host-port"]
		if len(rank) < 13 || a.Endpoints.String() != rank[:8]+":8000" || seen[rank] {
			t.Fatalf("rank %q at %s, want an unused rank of the server at port 8000", rank, a.Endpoints)
		}
		seen[rank] = true
		p.Log(accesslog.Entry{Pool: "ns/pool", Gateway: "ns/gw", Lease: a.Lease.String(), Served: a.Endpoints[0],
			Open: true, Status: 200})
		if n := inFlight(p, rank); n != 1 {
			t.Errorf("%s has %d in flight, want 1", rank, n)
		}
	}
	// If the primary port is not in the pool, requests go to the rank's own port.
	pool.Endpoints = specs("10.0.0.1:9001", "10.0.0.1:9002")
	setPools(t, p, pool)
	if a := p.Pick(t.Context(), longPrompt(10)); len(named(a)) != 0 || a.Endpoints[0] != a.Endpoints[2] {
		t.Errorf("got headers %v at %s, want none and the rank itself", named(a), a.Endpoints)
	}
}

func TestDisagg_HeadersOfClientsAreRemoved(t *testing.T) {
	p := runPicker(t, Config{})
	_, address := servePicker(t, p)
	doc :=
		"plugins: [{type: decode-filter}, {type: prefill-filter}, {type: always-disagg-pd-decider}, {type: " +
			"disagg-profile-handler, parameters: {deciders: {prefill: " +
			"always-disagg-pd-decider}}}]\nschedulingProfiles: [{name: decode, plugins: [{pluginRef: " +
			"decode-filter}]}, {name: prefill, plugins: [{pluginRef: prefill-filter}]}]"
	setPools(t, p,
		Pool{ID: poolID("ns/pool"), Default: true, Strategy: "plugins", Plugins: parsed(t, doc),
			Endpoints: withRoles("10.0.0.1:80", "decode", "10.0.0.2:80", "prefill")},
		Pool{ID: poolID("ns/plain"), Endpoints: specs("10.0.0.3:80")})
	sent := []string{"x-prefiller-host-port", "10.9.9.9:1"}
	var want []string
	for _, name := range endpointpicker.RoutingHeaders() {
		if sent = append(sent, name, "1"); name != "x-prefiller-host-port" {
			want = append(want, name)
		}
	}
	stream, _ := call(t, dialPicker(t, address))
	mutation := exchange(t, stream, headerMessage(nil, sent...)).GetRequestHeaders().GetResponse().GetHeaderMutation()
	slices.Sort(want)
	if diff := cmp.Diff(want, slices.Sorted(slices.Values(mutation.RemoveHeaders))); diff != "" {
		t.Error(diff)
	}
	value := ""
	for _, h := range mutation.SetHeaders {
		if h.Header.Key == "x-prefiller-host-port" {
			value += string(h.Header.RawValue) + h.AppendAction.String()
		}
	}
	if value != "10.0.0.2:80OVERWRITE_IF_EXISTS_OR_ADD" {
		t.Errorf(`prefill at %q, want "10.0.0.2:80OVERWRITE_IF_EXISTS_OR_ADD"`, value)
	}
}

func TestDisagg_ConcurrentRequestsLeaveNothingInFlight(t *testing.T) {
	p := runPicker(t, Config{})
	list := withRoles("10.0.0.1:80", "decode", "10.0.0.2:80", "prefill", "10.0.0.3:80", "prefill", "10.0.0.4:80",
		"encode")
	setPools(t, p,
		Pool{ID: poolID("ns/pool"), Strategy: "plugins", Plugins: parsed(t, stagesDoc(allStages)),
			Full: schedule.Full{InFlight: 8}, Endpoints: list})
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			for i := range 50 {
				r := longPrompt(600 + i)
				r.Facts.Media = i%2 == 0
				a := p.Pick(context.Background(), r)
				if a.Status != 0 {
					continue
				}
				e := accesslog.Entry{Pool: "ns/pool", Gateway: "ns/gw", Lease: a.Lease.String(), Served: "10.0.0.1:80",
					Status: 200, FirstByte: time.Millisecond}
				var ends sync.WaitGroup
				for _, open := range []bool{true, false} {
					entry := e
					entry.Open, entry.Body = open, open
					ends.Go(func() { p.Log(entry) })
				}
				ends.Wait()
				a.Track.End()
			}
		})
	}
	all.Wait()
	for _, e := range list {
		if n := inFlight(p, e.Addr.String()); n != 0 {
			t.Errorf("%s has %d in flight, want 0", e.Addr, n)
		}
	}
	if n := p.leases.Len(); n != 0 {
		t.Errorf("%d leases are open, want 0", n)
	}
}
