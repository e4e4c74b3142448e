package picker

import (
	"testing"

	"github.com/penstock-project/penstock/picker/schedule"
)

// Envoy's routes and the picker get a new configuration at different times. A request whose route
// lacks the pool's new spill targets must not get a 429.
func TestSpill_RouteWithoutTargetsYetIsStillServed(t *testing.T) {
	p := runPicker(t, Config{})
	_, address := servePicker(t, p)
	pool := Pool{ID: poolID("ns/pool"), Default: true, Full: schedule.Full{InFlight: 1},
		Endpoints: specs("10.0.0.1:80")}
	conn := dialPicker(t, address)
	for _, c := range []struct {
		spills bool // the pool spills, and Envoy has "envoy://b/"
		what   string
		meta   []string
		list   string
		status int
	}{
		{false, "a pool without spill targets", []string{"x-penstock-pool", "ns/pool"}, "", 429},
		{true, "a route with targets", []string{"x-penstock-pool", "ns/pool", "x-penstock-spill", "envoy://b/"},
			"envoy://b/", 0},
		{true, "a route without targets yet", []string{"x-penstock-pool", "ns/pool"}, "10.0.0.1:80", 0},
		{true, "a route with a target that Envoy does not have yet",
			[]string{"x-penstock-pool", "ns/pool", "x-penstock-spill", "envoy://new/"}, "10.0.0.1:80", 0},
		{true, "a request that was spilled already", []string{"x-penstock-pool", "ns/pool", "x-penstock-last", "true"},
			"", 429},
		{true, "a gateway that names no pool", nil, "", 429},
	} {
		if pool.Spills, pool.Spill = c.spills, nil; c.spills {
			pool.Spill = []string{"envoy://b/"}
		}
		setPools(t, p, pool)
		busy, end := call(t, conn, "x-penstock-pool", "ns/pool", "x-penstock-spill", "envoy://b/")
		if list, _, _ := answered(exchange(t, busy, headerMessage(nil))); list != "10.0.0.1:80,envoy://b/" &&
			list != "envoy://b/" && list != "10.0.0.1:80" {
			t.Fatalf("%s: the first request went to %q, want 10.0.0.1:80, envoy://b/, or both", c.what, list)
		}
		stream, cancel := call(t, conn, c.meta...)
		if list, _, status := answered(exchange(t, stream, headerMessage(nil))); list != c.list || status != c.status {
			t.Errorf("%s: %q %d, want %q %d", c.what, list, status, c.list, c.status)
		}
		if got := p.Picks(Picks{Last: 1})[0].Exceeded; c.status == 429 &&
			(len(got) != 1 || got[0].Limit != "picker.full.inFlight" || got[0].Max != 1 || got[0].Value < 1 ||
				got[0].Endpoints != 1) {
			t.Errorf("%s: got %d by %+v, want picker.full.inFlight of 1 at one endpoint", c.what, c.status, got)
		}
		cancel()
		end()
	}
}
