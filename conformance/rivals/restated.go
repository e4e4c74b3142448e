package main

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/penstock-project/penstock/picker/simulation"
)

// restated maps contenders to the strategies of picker/simulation that imitate them with default
// settings.
var restated = map[string]string{penstockName: "load", "sglang-router": "sglang", smgName: "smg"}

// simulate returns, by contender, Penstock's simulated TTFT p90 divided by the contender's.
func (w *workload) simulate(requests []request, lasts time.Duration) (map[string]float64, error) {
	var lines strings.Builder
	for _, r := range requests {
		line, err := json.Marshal(map[string]any{
			"timestamp": float64(r.at) / float64(time.Millisecond), "input_length": r.input, "output_length": r.output,
			"hash_ids": r.blocks,
		})
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&lines, "%s\n", line)
	}
	planned, err := simulation.ReadTrace(w.name, strings.NewReader(lines.String()))
	if err != nil {
		return nil, err
	}
	slower := func(d time.Duration) time.Duration { return time.Duration(float64(d) * w.slow) }
	server := simulation.ServerConfig{
		Step: slower(20 * time.Millisecond), PerSequence: slower(300 * time.Microsecond), PrefillRate: 8000 / w.slow,
		TokenizerRate: 250_000 / w.slow, Blocks: 768_000 / simulation.BlockTokens / w.thin,
	}
	counts := lasts * (warm*100 + (1-warm)*settle*100) / 100
	p90s := map[string]float64{}
	for name, rule := range restated {
		strategies, err := simulation.Named(rule)
		if err != nil {
			return nil, err
		}
		outcomes := simulation.Run(simulation.Scenario{
			Workload: planned, Strategy: strategies[0], Servers: serversOfFleet, Server: server, Seed: 1,
		})
		p90s[name] = simulation.Summarize(planned, outcomes, counts, math.MaxInt64).TTFT90.Seconds()
	}
	ratios := map[string]float64{}
	for name, value := range p90s {
		if name != penstockName {
			ratios[name] = p90s[penstockName] / value
		}
	}
	return ratios, nil
}
