package main

import (
	"testing"

	"github.com/penstock-project/penstock/picker/simulation"
)

func TestSelection_ShapeIsClustersTimesServers(t *testing.T) {
	for text, want := range map[string]shape{"3x8": {3, 8, false}, "2x4-slow": {2, 4, true}, "8x16": {8, 16, false}} {
		if got, err := parseShape(text); err != nil || got != want {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "3", "3x", "0x8", "3x0", "65x8", "3x8x2", "3x8-fast", "-3x8"} {
		if got, err := parseShape(text); err == nil {
			t.Errorf("%q is %+v", text, got)
		}
	}
}

// TestSelection_GatewaysChooseNearlyAsWellAsOnePickerOfAllServers is a small drawing of the figure
// sel_p90.
func TestSelection_GatewaysChooseNearlyAsWellAsOnePickerOfAllServers(t *testing.T) {
	s := shape{clusters: 3, servers: 4}
	source := simulation.Generated(2000)[0]
	w := source.Draw(0.7*s.capacity(source.Name), 1)
	play := func(change func(*simulation.ClusterSet)) (r routed) {
		set := s.set(w, source.Name, 1)
		change(&set)
		r.add(w, set.Enter, simulation.RunClusters(set), 1)
		return r
	}
	ours := play(func(*simulation.ClusterSet) {})
	reference := play(func(set *simulation.ClusterSet) { set.Gateway = nil })
	silent := play(func(set *simulation.ClusterSet) {
		for c := range set.Members {
			set.Members[c].Every = -1
		}
	})
	local := play(func(set *simulation.ClusterSet) { set.Gateway = newGateway(1000 * 1e9) })
	t.Logf("TTFT p90: reference %.3g s, ours %.3g s, without reports %.3g s, local only %.3g s", reference.p90,
		ours.p90, silent.p90, local.p90)
	if ours.p90 > 1.3*reference.p90 || silent.p90 > 2.5*reference.p90 || local.p90 < 3*ours.p90 {
		t.Errorf("TTFT p90: reference %.3g s, ours %.3g s, without reports %.3g s, local only %.3g s", reference.p90,
			ours.p90, silent.p90, local.p90)
	}
}
