package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/penstock-project/penstock/conformance/bench/picks"
	"github.com/penstock-project/penstock/picker/flow"
	"github.com/penstock-project/penstock/picker/simulation"
)

// offQueue is a pool's queue without flow control. It is a variable, so that the compiler does not
// know it.
var offQueue *flow.Queue

// measureFlowOff measures the question that a pick asks.
func measureFlowOff(_ context.Context, _ config, out report) error {
	on := 0
	r := testing.Benchmark(func(b *testing.B) {
		for range b.N {
			if offQueue.On() {
				on++
			}
		}
	})
	if on > 0 {
		return fmt.Errorf("flow control is on")
	}
	out("flow_off", "", float64(r.T.Nanoseconds())/float64(r.N))
	return nil
}

func measureFlowIdle(ctx context.Context, c config, out report) error {
	p, err := startPickers(ctx, c, picks.Ours, picks.Flow)
	if err != nil {
		return err
	}
	defer p.close()
	for mode, part := range map[string]string{"headers": "", "prompts": "prompts"} {
		costs, err := p.compare(ctx, mode, 1<<10, picks.Flow, picks.Ours)
		if err != nil {
			return err
		}
		with, without := costs[picks.Flow], costs[picks.Ours]
		out("flow_idle", part, with.each()/without.each())
	}
	return nil
}

// flowSource draws chats for a time at a multiple of 100 % load.
func flowSource(name string, load float64, lasts time.Duration) (simulation.Source, float64) {
	rate := load * fullLoad[name]
	sources := simulation.Generated(int(rate * lasts.Seconds()))
	return sources[slices.IndexFunc(sources, func(s simulation.Source) bool { return s.Name == name })], rate
}

// lot returns a number from 0 to 1 for a request.
func lot(i int) float64 {
	x := uint64(i+1) * 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	return float64((x^x>>27)>>11) / (1 << 53)
}

// measureFlowFair has one fairness ID send 100 times what each of three others does, which is more
// than a quarter of what the servers take.
func measureFlowFair(ctx context.Context, _ config, out report) error {
	const each, lasts, warm = 0.3, 60 * time.Second, 20 * time.Second
	source, rate := flowSource("chat", 103*each, lasts)
	worst := 0.0
	for i := range 2 {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		w := source.Draw(rate, i+1).Label(func(n int, r *simulation.Request) bool {
			r.Fairness = strconv.Itoa(max(0, int(lot(n)*103)-99)) // 0: 100 of 103
			return true
		})
		served, all := map[string]float64{}, 0.0
		for n, o := range simulation.Run(simulation.Scenario{
			Workload: w, Strategy: strategy(ours), Seed: uint64(i + 1), Flow: &simulation.FlowControl{},
		}) {
			if o.Server >= 0 && o.Scheduled >= warm && o.Scheduled < lasts {
				served[w.Requests[n].Fairness]++
				all++
			}
		}
		if len(served) != 4 {
			return fmt.Errorf("%d fairness IDs were served, want 4", len(served))
		}
		for _, n := range served {
			worst = max(worst, 4*n/all)
		}
	}
	out("flow_fair", "", worst)
	return nil
}

// measureFlowCritical compares the same Critical requests with and without Sheddable ones beside
// them.
func measureFlowCritical(ctx context.Context, _ config, out report) error {
	for _, m := range []struct {
		part, source string
		load         float64
		on           bool
	}{{"", "chat", 0.5, true}, {"off", "chat", 0.5, false}, {"at_70", "chat", 0.7, true}, {"rag", "rag", 0.5, true},
		{"bursts", "bursts", 0.5, true}, {"lora", "lora", 0.5, true}} {
		sum := 0.0
		for i := range drawings {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			sum += besideSheddable(m.source, m.load, m.on, i+1)
		}
		out("flow_critical", m.part, sum/drawings)
	}
	return nil
}

// besideSheddable returns the ratio of a drawing.
func besideSheddable(name string, load float64, on bool, drawing int) float64 {
	const sheddable, lasts = 5, 2 * time.Minute
	source, rate := flowSource(name, load+sheddable, lasts)
	both := source.Draw(rate, drawing).Label(func(i int, r *simulation.Request) bool {
		if r.Priority = -1; lot(i) < load/(load+sheddable) {
			r.Priority = 1
		}
		return true
	})
	alone := both.Label(func(_ int, r *simulation.Request) bool { return r.Priority == 1 })
	s := simulation.Scenario{Strategy: strategy(ours), Seed: uint64(drawing)}
	if on {
		s.Flow = &simulation.FlowControl{}
	}
	p99 := func(w *simulation.Workload) float64 {
		s.Workload = w
		var times []time.Duration
		for i, o := range simulation.Run(s) {
			if w.Requests[i].Priority == 1 && o.Server >= 0 {
				times = append(times, o.FirstByte-w.Requests[i].At)
			}
		}
		slices.Sort(times)
		return times[len(times)*99/100].Seconds()
	}
	return p99(both) / p99(alone)
}
