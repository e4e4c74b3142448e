package main

import (
	"context"
	"slices"
	"time"

	"github.com/penstock-project/penstock/conformance/bench/picks"
)

const (
	downRate  = 400 // requests a second
	downTurns = 3
	// downTurn is longer than the breaker is open: it includes the request that asks the processor
	// again and waits for it in vain.
	downTurn = 12 * time.Second
)

// measureProcessDown compares the time of requests of a pool whose processor hangs with those of
// one without a processor, in turns. Before the first turn the processor has failed often enough.
func measureProcessDown(ctx context.Context, c config, out report) error {
	p, err := startPickers(ctx, c, picks.Ours, picks.Process)
	if err != nil {
		return err
	}
	defer p.close()
	took := map[string][]time.Duration{}
	for turn := range downTurns + 1 {
		lasts := downTurn
		if turn == 0 { // it warms both
			lasts = 3 * time.Second
		}
		for _, kind := range []string{picks.Ours, picks.Process} {
			list, err := p.clients.Time(ctx, [][]byte{picks.Request(kind+"-prompts", picks.Chat(1<<10, turn))}, lasts,
				downRate)
			if err != nil {
				return err
			}
			if turn > 0 {
				took[kind] = append(took[kind], list...)
			}
		}
	}
	at := func(kind string, percent int) float64 {
		list := took[kind]
		slices.Sort(list)
		return list[len(list)*percent/100].Seconds()
	}
	out("process_down", "", at(picks.Process, 99)/at(picks.Ours, 99))
	out("process_down", "p50", at(picks.Process, 50)/at(picks.Ours, 50))
	out("process_down", "longest", 1000*slices.Max(took[picks.Process]).Seconds())
	return nil
}
