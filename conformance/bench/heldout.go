package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"time"

	"github.com/penstock-project/penstock/picker/simulation"
)

const (
	heldOutDrawn = 6
	heldOutWait  = 5 * time.Second
)

// fullLoadOf computes fullLoad, in requests a second, for a source. It is accurate to about 2 %.
func fullLoadOf(source simulation.Source) float64 {
	waits := func(rate float64) bool {
		var trials []simulation.Trial
		for _, d := range simulation.Drawings(simulation.Scenario{}, source, rate, 2) {
			trials = append(trials, simulation.Trial{Scenario: simulation.Scenario{
				Strategy: strategy(reference), Workload: d.Workload, Seed: d.Seed,
			}})
		}
		var wait time.Duration
		for _, s := range simulation.Play(trials) {
			wait += s.WaitP90 / time.Duration(len(trials))
		}
		return wait > heldOutWait
	}
	low, high := 0.5, 1.0
	for ; !waits(high); high *= 2 {
		low = high
	}
	for high/low > 1.02 {
		if middle := math.Sqrt(low * high); waits(middle) {
			high = middle
		} else {
			low = middle
		}
	}
	return low
}

func measureHeldOut(ctx context.Context, _ config, out report) error {
	seed, err := seedOf("DRAW_SEED")
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "DRAW_SEED=%d\n", seed)
	worst, ends, logs, cells := 0.0, 0.0, 0.0, 0
	for _, source := range simulation.HeldOut(requestsDrawn, seed, heldOutDrawn) {
		full := fullLoadOf(source)
		fmt.Fprintf(os.Stderr, "%s: %s Full load: %.3g a second\n", source.Name, source.About, full)
		for _, load := range loads[:2] {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			played := playAll(source, full*float64(load)/100, simulation.ServerConfig{}, simulation.Names()...)
			for _, name := range simulation.Names() {
				m := played[name]
				fmt.Fprintf(os.Stderr, "%s %d %% %s: TTFT p90 %.3g s, p50 %.3g s, end %.3g s, cached %.3f\n",
					source.Name, load, name, m.p90, m.p50, m.endToEnd, m.hits)
			}
			p90 := played[ours].p90 / least(played, func(m means) float64 { return m.p90 })
			end := played[ours].endToEnd / least(played, func(m means) float64 { return m.endToEnd })
			fmt.Fprintf(os.Stderr, "%s %d %%: TTFT p90 %.3f of the best other strategy, end %.3f\n", source.Name,
				load, p90, end)
			worst, ends, logs, cells = max(worst, p90), max(ends, end), logs+math.Log(p90), cells+1
		}
	}
	out("sim_held_out", "", worst)
	out("sim_held_out", "mean", math.Exp(logs/float64(cells)))
	out("sim_held_out", "e2e", ends)
	return nil
}
