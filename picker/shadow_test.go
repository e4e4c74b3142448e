package picker

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/penstock-project/penstock/picker/extproc"
)

func TestShadow_JudgesPicksWithoutEffect(t *testing.T) {
	registry := prometheus.NewRegistry()
	p, err := New(Config{Registerer: registry})
	if err != nil {
		t.Fatal(err)
	}
	pool := Pool{ID: poolID("ns/pool"), Strategy: "round-robin", Shadow: "least-request",
		Endpoints: specs("10.0.0.1:80", "10.0.0.2:80")}
	setPools(t, p, pool)
	// Both endpoints are idle, so each choice of the shadow strategy costs the same.
	first := p.Pick(t.Context(), &extproc.Request{Pool: "ns/pool", Headers: &extproc.Message{}})
	for range 3 {
		p.Pick(t.Context(), &extproc.Request{Pool: "ns/pool", Headers: &extproc.Message{}})
	}
	if first.Endpoints.String() != "10.0.0.1:80" || p.leases.Len() != 4 ||
		p.pool("ns/pool").snapshot.Endpoints[0].Load().InFlight() != 2 {
		t.Fatal("the shadow has an effect on round robin")
	}
	got := gathered(t, registry)
	yes, no := got["penstock_picker_shadow_picks_total yes ns/pool least-request"],
		got["penstock_picker_shadow_picks_total no ns/pool least-request"]
	// The second and the fourth pick go to the endpoint with fewer requests. At the first and the
	// third pick both are equal.
	if yes+no != 4 || yes < 2 || got["penstock_picker_shadow_regret_total ns/pool least-request"] != 0 {
		t.Errorf("%v agree, %v do not, regret %v; want 4 in all, 2 of them agreeing at least, and no regret",
			yes, no, got["penstock_picker_shadow_regret_total ns/pool least-request"])
	}
	// Round robin also sends requests to the server that has three more requests than the other.
	list := p.pool("ns/pool").snapshot.Endpoints
	busy := extproc.Answer{}
	for range 6 {
		a := p.Pick(t.Context(), &extproc.Request{Pool: "ns/pool", Headers: &extproc.Message{}})
		if a.Endpoints.String() == list[1].Text {
			p.leases.Find(a.Lease.String()).Release()
		} else {
			busy = a
		}
	}
	if regret := gathered(t, registry)["penstock_picker_shadow_regret_total ns/pool least-request"]; regret < 3 ||
		len(busy.Endpoints) == 0 {
		t.Errorf("regret %v of picks that went to the busier server, want at least 3", regret)
	}
	pool.Shadow = "nonsense"
	if p.Update(pool) == nil {
		t.Error("an unknown strategy is a shadow")
	}
	setPools(t, p)
	for name := range gathered(t, registry) {
		if len(name) > 22 && name[:22] == "penstock_picker_shadow" {
			t.Errorf("%s of a pool that is gone, want no series", name)
		}
	}
}
