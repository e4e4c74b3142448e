package main

import (
	"context"
	"slices"
	"time"

	"github.com/penstock-project/penstock/picker/simulation"
)

// lot returns a number from 0 to 1 for a request.
func lot(i int) float64 {
	x := uint64(i+1) * 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	return float64((x^x>>27)>>11) / (1 << 53)
}

func measureFlowCritical(ctx context.Context, _ config, out report) error {
	const load, sheddable, lasts = 0.5, 5, 2 * time.Minute
	rate := (load + sheddable) * fullLoad["chat"]
	all := simulation.Generated(int(rate * lasts.Seconds()))
	chat := all[slices.IndexFunc(all, func(s simulation.Source) bool { return s.Name == "chat" })]
	sum := 0.0
	for i := range drawings {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		both := chat.Draw(rate, i+1).Label(func(n int, r *simulation.Request) bool {
			if r.Priority = -1; lot(n) < load/(load+sheddable) {
				r.Priority = 1
			}
			return true
		})
		alone := both.Label(func(_ int, r *simulation.Request) bool { return r.Priority == 1 })
		sum += criticalP99(both, i+1) / criticalP99(alone, i+1)
	}
	out("flow_critical", "", sum/drawings)
	return nil
}

func criticalP99(w *simulation.Workload, drawing int) float64 {
	var times []time.Duration
	for i, o := range simulation.Run(simulation.Scenario{
		Strategy: strategy(ours), Seed: uint64(drawing), Workload: w, Flow: &simulation.FlowControl{},
	}) {
		if w.Requests[i].Priority == 1 && o.Server >= 0 {
			times = append(times, o.FirstByte-w.Requests[i].At)
		}
	}
	return percentile(times, 99).Seconds()
}
