package picker

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/penstock-project/penstock/manifests/endpointpicker"
	"github.com/penstock-project/penstock/picker/dial"
	"github.com/penstock-project/penstock/picker/scoring/scoringtest"
	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

func parsed(t *testing.T, doc string) *endpointpicker.Profile {
	t.Helper()
	p, problems := endpointpicker.Parse("apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\n" + doc)
	if p == nil {
		t.Fatal(problems)
	}
	return p
}

func TestPlugins_ThroughEnvoyPrefixesStayAtOneServer(t *testing.T) {
	g := startGateway(t, route{Name: "buffered", Cluster: "closed", Mode: buffered, Allow: true})
	pool := Pool{ID: poolID("ns/pool"), Strategy: "plugins", Endpoints: g.endpoints(), Body: BodyPrompts,
		Plugins: parsed(t, "plugins: [{type: prefix-cache-scorer}, {type: weighted-random-picker}]")}
	setPools(t, g.picker, pool)
	first := map[string]string{}
	for i := range 24 {
		prompt := fmt.Sprintf(`{"model":"m","prompt":"%d %s"}`, i%6, strings.Repeat("the same words ", 100))
		response, text := g.post(t, "/buffered/v1/completions", []byte(prompt))
		pod := response.Header.Get("x-pod")
		if response.StatusCode != 200 || first[prompt] != "" && first[prompt] != pod {
			t.Errorf("pick %d: %s from %s, first at %s: %s", i, response.Status, pod, first[prompt], text)
		}
		first[prompt] = pod
	}
	records := g.picker.History("ns/pool")
	if len(records) == 0 || records[0].Strategy != "plugins" || len(records[0].Verdicts[0].Scores) != 1 {
		t.Errorf("recorded without scores: %+v", records)
	}
}

// A filter that keeps no endpoint is not an overload: 503, not 429.
func TestPlugins_FilterWithoutEndpointsIs503(t *testing.T) {
	g := startGateway(t, route{Name: "none", Cluster: "closed", Mode: none, Allow: true})
	setPools(t, g.picker, Pool{ID: poolID("ns/pool"), Strategy: "plugins", Endpoints: g.endpoints(),
		Plugins: parsed(t, "plugins: [{type: label-selector-filter, parameters: {matchLabels: {gpu: h100}}}]")})
	if response, text := g.post(t, "/none/", nil); response.StatusCode != 503 || !strings.Contains(text, "no model server that takes requests") {
		t.Errorf("%s %s", response.Status, text)
	}
}

func TestPlugins_InvalidOnesKeepTheLastAndEndpointsFollow(t *testing.T) {
	p := runPicker(t, Config{})
	strategy := func(want string) {
		t.Helper()
		if e := p.Explain("ns/pool", nil); e.Strategy != want {
			t.Errorf("strategy %s, want %s", e.Strategy, want)
		}
	}
	endpoints := specs("10.0.0.1:80", "10.0.0.2:80", "10.0.0.3:80")
	pool := Pool{ID: poolID("ns/pool"), Strategy: "plugins", Endpoints: endpoints[:1]}
	setPools(t, p, pool)
	strategy("load") // there is no last valid one
	pool.Plugins = parsed(t, "plugins: [{type: active-request-scorer}]")
	setPools(t, p, pool)
	strategy("plugins")
	pool.Plugins, pool.Endpoints = nil, endpoints
	setPools(t, p, pool)
	strategy("plugins")
	if e := p.Explain("ns/pool", nil); len(e.Verdicts) != 3 || e.Verdicts[2].Scores[0].Plugin != "active-request-scorer" {
		t.Errorf("%+v", e)
	}
	pool.Strategy = "random"
	setPools(t, p, pool)
	strategy("random")
}

// The scorer prefers the pod that has its name; when it is gone, the other scorers decide.
func TestPlugins_ThroughEnvoyExternalScorerDecides(t *testing.T) {
	g := startGateway(t, route{Name: "none", Cluster: "closed", Mode: none, Allow: true})
	var favorite atomic.Pointer[string]
	at := scoringtest.Start(t, func(ctx context.Context, request []byte) ([]byte, error) {
		name := favorite.Load()
		if name == nil {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		var scores []float64
		for _, c := range scoringtest.Fields(request, 3) {
			score := 0.0
			if pod := scoringtest.Fields(c, 2); len(pod) == 1 && string(pod[0]) == *name {
				score = 1
			}
			scores = append(scores, score)
		}
		return scoringtest.Scores(scores...), nil
	})
	setPools(t, g.picker, Pool{ID: poolID("ns/pool"), Strategy: "plugins", Endpoints: g.endpoints(),
		Plugins: parsed(t, "plugins: [{type: external-scorer, parameters: {service: scorer}}, {type: random-picker}, {type: max-score-picker, name: best}]\nschedulingProfiles: [{plugins: [{pluginRef: external-scorer}, {pluginRef: best}]}]"),
		Scorers: []Scorer{{Addresses: []dial.Address{{AddrPort: at, Cleartext: true}}}}})
	for _, name := range []string{"pod-1", "pod-0", "pod-1"} {
		favorite.Store(&name)
		poll.NoError(t, "the scorer decides", 10*time.Second, func() error {
			for range 10 {
				if response, text := g.post(t, "/none/", nil); response.StatusCode != 200 || response.Header.Get("x-pod") != name {
					return fmt.Errorf("%s from %s: %s", response.Status, response.Header.Get("x-pod"), text)
				}
			}
			return nil
		})
	}
	favorite.Store(nil)
	seen := map[string]bool{}
	for range 40 {
		response, text := g.post(t, "/none/", nil)
		if response.StatusCode != 200 {
			t.Fatalf("without the scorer: %s %s", response.Status, text)
		}
		seen[response.Header.Get("x-pod")] = true
	}
	if len(seen) != 2 {
		t.Errorf("without scores all requests went to %v", seen)
	}
}

func TestPlugins_ExternalScorersConnectionsAreKeptAndClosed(t *testing.T) {
	p := runPicker(t, Config{})
	at := dial.Address{AddrPort: netip.MustParseAddrPort("127.0.0.1:1"), Cleartext: true}
	pool := Pool{ID: poolID("ns/pool"), Strategy: "plugins", Endpoints: specs("10.0.0.1:80"), Plugins: parsed(t, "plugins: [{type: external-scorer, parameters: {service: scorer}}]"),
		Scorers: []Scorer{{Addresses: []dial.Address{at}}}}
	setPools(t, p, pool)
	first := p.pool("ns/pool").scorers[0]
	pool.Fallbacks = 1
	setPools(t, p, pool)
	if p.pool("ns/pool").scorers[0] != first {
		t.Error("a change of another field connects again")
	}
	pool.Plugins, pool.Scorers = nil, nil // invalid: the last ones stay
	setPools(t, p, pool)
	if s := p.pool("ns/pool").scorers; len(s) != 1 || s[0] != first {
		t.Error("the last valid scorer is gone")
	}
	pool.Strategy = "random"
	setPools(t, p, pool)
	if len(p.pool("ns/pool").scorers) != 0 {
		t.Error("another strategy keeps the scorer")
	}
}

func TestPlugins_ThroughEnvoySessionsStay(t *testing.T) {
	g := startGateway(t, route{Name: "a", Cluster: "closed", Mode: noneResp, Allow: true})
	setPools(t, g.picker, Pool{ID: poolID("ns/pool"), Strategy: "plugins", Endpoints: g.endpoints(), Plugins: parsed(t, "plugins: [{type: session-affinity-scorer}]")})
	seen := map[string]bool{}
	for i := range 12 {
		first, token := g.ask(t, "/a/", "x-session-id", fmt.Sprint("user-", i))
		for range 3 {
			if pod, _ := g.ask(t, "/a/", "x-session-id", fmt.Sprint("user-", i)); pod != first {
				t.Errorf("the session began at %s and went to %s", first, pod)
			}
			if pod, _ := g.ask(t, "/a/", "x-session-token", token); pod != first {
				t.Errorf("the token of %s led to %s", first, pod)
			}
		}
		seen[first] = true
	}
	if len(seen) != 2 {
		t.Errorf("all sessions at %v", seen)
	}
}
