package picker

import (
	"fmt"
	"strings"
	"testing"

	"github.com/penstock-project/penstock/manifests/endpointpicker"
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
			t.Errorf("pick %d: got %s from %s, want 200 from %s, the first: %s",
				i, response.Status, pod, first[prompt], text)
		}
		first[prompt] = pod
	}
	records := g.picker.History("ns/pool")
	if len(records) == 0 || records[0].Strategy != "plugins" || len(records[0].Verdicts[0].Scores) != 1 {
		t.Errorf("records %+v, want the first by plugins, with one score", records)
	}
}

// If a filter removes all endpoints, the status is 503, not 429: the pool is not overloaded.
func TestPlugins_FilterWithoutEndpointsIs503(t *testing.T) {
	g := startGateway(t, route{Name: "none", Cluster: "closed", Mode: none, Allow: true})
	setPools(t, g.picker, Pool{ID: poolID("ns/pool"), Strategy: "plugins", Endpoints: g.endpoints(),
		Plugins: parsed(t, "plugins: [{type: label-selector-filter, parameters: {matchLabels: {gpu: h100}}}]")})
	if response, text := g.post(t, "/none/", nil); response.StatusCode != 503 ||
		!strings.Contains(text, "no model server that takes requests") {
		t.Errorf("got %s %s, want 503: no model server that takes requests", response.Status, text)
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
	strategy("load") // no profile has been valid yet
	pool.Plugins = parsed(t, "plugins: [{type: active-request-scorer}]")
	setPools(t, p, pool)
	strategy("plugins")
	pool.Plugins, pool.Endpoints = nil, endpoints
	setPools(t, p, pool)
	strategy("plugins")
	if e := p.Explain("ns/pool", nil); len(e.Verdicts) != 3 ||
		e.Verdicts[2].Scores[0].Plugin != "active-request-scorer" {
		t.Errorf("explanation: got %+v, want 3 verdicts with scores by active-request-scorer", e)
	}
	pool.Strategy = "random"
	setPools(t, p, pool)
	strategy("random")
}

func TestPlugins_ThroughEnvoySessionsStay(t *testing.T) {
	g := startGateway(t, route{Name: "a", Cluster: "closed", Mode: noneResp, Allow: true})
	setPools(t, g.picker,
		Pool{ID: poolID("ns/pool"), Strategy: "plugins", Endpoints: g.endpoints(),
			Plugins: parsed(t, "plugins: [{type: session-affinity-scorer}]")})
	seen := map[string]bool{}
	for i := range 12 {
		first, token := g.ask(t, "/a/", "x-session-id", fmt.Sprint("user-", i))
		for range 3 {
			if pod, _ := g.ask(t, "/a/", "x-session-id", fmt.Sprint("user-", i)); pod != first {
				t.Errorf("the session began at %s and went to %s, want one server", first, pod)
			}
			if pod, _ := g.ask(t, "/a/", "x-session-token", token); pod != first {
				t.Errorf("the token of %s led to %s, want that server", first, pod)
			}
		}
		seen[first] = true
	}
	if len(seen) != 2 {
		t.Errorf("all sessions at %v, want 2 of them", seen)
	}
}
