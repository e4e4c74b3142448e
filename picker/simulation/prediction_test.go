package simulation

import (
	"math"
	"slices"
	"testing"
)

// Half of the predicted times to the first token are within a third of the real times. Each time
// counts as at least 60 ms, a few steps of the engine.
func TestSLO_PredictedLatencyIsNearTheRealOne(t *testing.T) {
	load, err := Named("load")
	if err != nil {
		t.Fatal(err)
	}
	full := map[string]float64{"chat": 32.4, "rag": 8.82, "documents": 56, "lora": 14.1, "bursts": 7.16, "agents": 22.1}
	for _, source := range Generated(6000) {
		w := source.Draw(0.8*full[source.Name], 1)
		r := newRun(Scenario{Workload: w, Strategy: load[0], Seed: 1}, new(clock))
		r.arrive(0)
		for r.clock.next() {
		}
		var errors []float64
		for i, pick := range r.picks {
			if pick.At < w.Warm() {
				continue
			}
			real := (r.outcomes[i].FirstByte - pick.At).Seconds()
			errors = append(errors, math.Abs(pick.Wait.Seconds()-real)/max(real, 0.06))
		}
		slices.Sort(errors)
		t.Logf("%s: median error %.2f, p90 %.2f", source.Name, errors[len(errors)/2], errors[len(errors)*9/10])
		if errors[len(errors)/2] > 0.34 {
			t.Errorf("%s: median error %.2f, want at most 0.34", source.Name, errors[len(errors)/2])
		}
	}
}
