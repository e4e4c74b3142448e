package simulation

import (
	"math"
	"testing"
	"time"
)

// At three times the full load, the served requests are in time, and use most of the servers'
// capacity. For agents, the prediction must include the prompt's reading time; otherwise sessions
// evict each other. For chats it must include the queue.
func TestSLO_OverloadKeepsGoodput(t *testing.T) {
	load, err := Named("load")
	if err != nil {
		t.Fatal(err)
	}
	for name, full := range map[string]float64{"agents": 22.1, "chat": 32.4} {
		for _, source := range Generated(3000) {
			if source.Name != name {
				continue
			}
			w := source.Draw(3*full, 1)
			s := Scenario{Workload: w, Strategy: load[0], ShedAfter: 1500 * time.Millisecond, Seed: 1}
			got := Summarize(w, Run(s), w.Warm(), math.MaxInt64)
			if got.Goodput < 0.7*full || got.TTFT90 > 4*time.Second || got.Shed == 0 {
				t.Errorf("%s: goodput %.2f of capacity, TTFT p90 %s, %d shed; want at least 0.70, at most 4s, and some",
					name, got.Goodput/full, got.TTFT90, got.Shed)
			}
		}
	}
}
