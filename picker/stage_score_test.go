package picker

import (
	"context"
	"fmt"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/penstock-project/penstock/picker/dial"
	"github.com/penstock-project/penstock/picker/scoring/scoringtest"
	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

// The pod that the scorer prefers gets the requests. Without the scorer, other scorers decide.
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
		Plugins: parsed(t,
			"plugins: [{type: external-scorer, parameters: {service: scorer}}, {type: random-picker}, {type: "+
				"max-score-picker, name: best}]\nschedulingProfiles: [{plugins: [{pluginRef: external-scorer}, "+
				"{pluginRef: best}]}]"),
		Scorers: []Scorer{{Addresses: []dial.Address{{AddrPort: at, Cleartext: true}}}}})
	for _, name := range []string{"pod-1", "pod-0", "pod-1"} {
		favorite.Store(&name)
		poll.NoError(t, "the scorer decides", 10*time.Second, func() error {
			for range 10 {
				if response, text := g.post(t, "/none/", nil); response.StatusCode != 200 ||
					response.Header.Get("x-pod") != name {
					return fmt.Errorf("got %s from %s, want 200 from %s: %s",
						response.Status, response.Header.Get("x-pod"), name, text)
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
			t.Fatalf("without the scorer: got %s %s, want 200", response.Status, text)
		}
		seen[response.Header.Get("x-pod")] = true
	}
	if len(seen) != 2 {
		t.Errorf("without scores all requests went to %v, want 2 of them", seen)
	}
}

func TestPlugins_ExternalScorersConnectionsAreKeptAndClosed(t *testing.T) {
	p := runPicker(t, Config{})
	at := dial.Address{AddrPort: netip.MustParseAddrPort("127.0.0.1:1"), Cleartext: true}
	pool := Pool{ID: poolID("ns/pool"), Strategy: "plugins", Endpoints: specs("10.0.0.1:80"),
		Plugins: parsed(t, "plugins: [{type: external-scorer, parameters: {service: scorer}}]"),
		Scorers: []Scorer{{Addresses: []dial.Address{at}}}}
	setPools(t, p, pool)
	first := p.pool("ns/pool").scorers[0]
	pool.Fallbacks = 1
	setPools(t, p, pool)
	if p.pool("ns/pool").scorers[0] != first {
		t.Error("a change of another field connects again")
	}
	pool.Plugins, pool.Scorers = nil, nil // invalid, so the last valid ones stay
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
