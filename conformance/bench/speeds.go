package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"slices"

	"github.com/penstock-project/penstock/picker/simulation"
)

// speeds are prefill rates in tokens a second, of two servers each. speedsLoad is 50 % load as a
// share of fullLoad, whose servers have 8,000 tokens a second.
var speeds = []float64{2000, 4000, 8000, 16000}

const speedsLoad = 0.5 * (2000 + 4000 + 8000 + 16000) / (4 * 8000)

func speedSources() ([]simulation.Source, error) {
	all, err := sources()
	return slices.DeleteFunc(all, func(s simulation.Source) bool {
		return !slices.Contains([]string{"chat", "rag", "conversation"}, s.Name)
	}), err
}

func measureSpeeds(ctx context.Context, _ config, out report) error {
	all, err := speedSources()
	if err != nil {
		return err
	}
	wrong, slower := 0.0, 0.0
	for _, source := range all {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		rate := speedsLoad * fullLoad[source.Name]
		learns := simulation.Scenario{Strategy: strategy(ours), Speeds: speeds}
		knows := learns
		knows.KnownSpeeds = true
		m := plays(source, rate, learns, knows)
		bare := learns
		bare.Pages.Bare = true
		percent := max(rateError(learns, source, rate), rateError(bare, source, rate))
		fmt.Fprintf(os.Stderr, "%s: rates wrong by %.1f %%, TTFT p90 %.4g s, with known rates %.4g s\n", source.Name,
			percent, m[0].p90, m[1].p90)
		wrong, slower = max(wrong, percent), max(slower, m[0].p90/m[1].p90)
	}
	out("rate_error", "", wrong)
	out("sim_speeds", "", slower)
	return nil
}

// rateError returns the median error of learned rates in percent. A rate that was not learned
// counts as 100 %.
func rateError(s simulation.Scenario, source simulation.Source, rate float64) float64 {
	learned := make([][]float64, drawings)
	drawn := simulation.Drawings(s, source, rate, drawings)
	simulation.Each(drawings, func(i int) { learned[i] = simulation.LearnedRates(drawn[i].Scenario) })
	var errs []float64
	for _, rates := range learned {
		for i, r := range rates {
			speed := speeds[i%len(speeds)]
			errs = append(errs, 100*math.Abs(r-speed)/speed)
		}
	}
	return median(errs)
}
