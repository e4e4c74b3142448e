package main

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	_ "embed"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"text/tabwriter"

	"github.com/penstock-project/penstock/picker/simulation"
)

// The figures sim_* compare picking strategies in virtual time. A figure is the mean over several
// draws of a workload, equal for all strategies.

const (
	drawings = 5
	// The first fifth of a draw only fills the caches.
	requestsDrawn = 8000
	requestsTrace = 6000
	ours          = "load"
	// reference is load with exact knowledge of the servers.
	reference = "reference"
)

// fullLoad is the workloads' 100 % load of 8 servers, in requests a second: with strategy
// reference, servers begin 90 % of the requests within 5 s (mean of 5 draws).
var fullLoad = map[string]float64{
	"chat": 32.4, "rag": 8.82, "documents": 56.2, "lora": 14.1, "bursts": 7.16, "agents": 22.1, "conversation": 5.61,
	"conversation-spread": 5.61,
}

func sources() ([]simulation.Source, error) {
	trace, err := readTrace()
	if err != nil {
		return nil, err
	}
	return append(simulation.Generated(requestsDrawn),
		trace.Source("conversation", "A public trace of a chat service.", requestsTrace, false),
		trace.Source("conversation-spread", "The same, with the requests of each timestamp spread until the next one.",
			requestsTrace, true)), nil
}

//go:embed traces/mooncake_conversation.jsonl.gz
var conversation []byte

func readTrace() (*simulation.Workload, error) {
	lines, err := gzip.NewReader(bytes.NewReader(conversation))
	if err != nil {
		return nil, err
	}
	return simulation.ReadTrace("mooncake_conversation.jsonl", lines)
}

// means are a strategy's means over the draws. Times are in seconds.
type means struct{ p50, p90, endToEnd, hits float64 }

func meansOf(summaries []simulation.Summary) (m means) {
	n := float64(len(summaries))
	for _, s := range summaries {
		m.p50 += s.TTFT50.Seconds() / n
		m.p90 += s.TTFT90.Seconds() / n
		m.endToEnd += s.EndToEnd.Seconds() / n
		m.hits += s.Hits / n
	}
	return m
}

func rivals() []string {
	return slices.DeleteFunc(simulation.Names(), func(name string) bool { return name == ours || name == reference })
}

func strategy(name string) simulation.Strategy {
	s, err := simulation.Named(name)
	if err != nil {
		panic(err)
	}
	return s[0]
}

func plays(source simulation.Source, rate float64, scenarios ...simulation.Scenario) []means {
	var trials []simulation.Trial
	drawn := simulation.Drawings(simulation.Scenario{}, source, rate, drawings)
	for _, s := range scenarios {
		for _, d := range drawn {
			s.Workload, s.Seed = d.Workload, d.Seed
			trials = append(trials, simulation.Trial{Scenario: s})
		}
	}
	summaries := simulation.Play(trials)
	out := make([]means, len(scenarios))
	for i := range out {
		out[i] = meansOf(summaries[i*drawings : (i+1)*drawings])
	}
	return out
}

func playAll(source simulation.Source, rate float64, server simulation.ServerConfig, names ...string,
) map[string]means {
	var scenarios []simulation.Scenario
	for _, name := range names {
		scenarios = append(scenarios, simulation.Scenario{Strategy: strategy(name), Server: server})
	}
	played := map[string]means{}
	for i, m := range plays(source, rate, scenarios...) {
		played[names[i]] = m
	}
	return played
}

type cell struct {
	workload string
	load     int // percent
}

type grid map[cell]map[string]means

var loads = []int{50, 70, 90}

func measureBest(ctx context.Context, _ config, out report) error {
	all, err := sources()
	if err != nil {
		return err
	}
	g := grid{}
	for _, source := range all {
		for _, load := range loads {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			g[cell{source.Name, load}] = playAll(source, fullLoad[source.Name]*float64(load)/100,
				simulation.ServerConfig{}, simulation.Names()...)
		}
	}
	g.print(os.Stderr, all)
	g.report(out)
	return nil
}

// measureDocs compares caches with room for half of the documents each, and for all documents once
// together.
func measureDocs(ctx context.Context, _ config, out report) error {
	all, err := sources()
	if err != nil {
		return err
	}
	source := all[slices.IndexFunc(all, func(s simulation.Source) bool { return s.Name == "documents" })]
	half, once := 0.0, 0.0
	for _, load := range loads[:2] {
		for _, caches := range []struct {
			blocks int // blocks in a server's cache; 0 means the default
			full   float64
			worst  *float64
		}{{0, fullLoad[source.Name], &half}, {400, 33.3, &once}} {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			names := []string{"llm-d", "sglang", "smg", "bounded-hash", ours}
			played := playAll(source, caches.full*float64(load)/100, simulation.ServerConfig{Blocks: caches.blocks},
				names...)
			for _, name := range names {
				m := played[name]
				fmt.Fprintf(os.Stderr, "%d %%, caches of %d blocks, %s: TTFT p90 %.3g s, cached %.3f\n", load,
					cmp.Or(caches.blocks, 1500), name, m.p90, m.hits)
			}
			best := math.Inf(1)
			for _, name := range names[:len(names)-1] {
				best = min(best, played[name].p90)
			}
			*caches.worst = max(*caches.worst, played[ours].p90/best)
		}
	}
	out("sim_docs", "", half)
	out("sim_docs", "once", once)
	return nil
}

func (g grid) print(to io.Writer, all []simulation.Source) {
	table := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprint(table, "TTFT p90 / p50 in s")
	for _, source := range all {
		fmt.Fprintf(table, "\t%s", source.Name)
	}
	fmt.Fprintln(table)
	for _, load := range loads {
		for _, name := range simulation.Names() {
			fmt.Fprintf(table, "%d %% %s", load, name)
			for _, source := range all {
				m := g[cell{source.Name, load}][name]
				fmt.Fprintf(table, "\t%.3g / %.3g", m.p90, m.p50)
			}
			fmt.Fprintln(table)
		}
	}
	_ = table.Flush()
}

func (g grid) report(out report) {
	var worst, worst90, worst50, worstE2E, logs float64
	for c, played := range g {
		p90 := played[ours].p90 / least(played, func(m means) float64 { return m.p90 })
		logs += math.Log(p90) / float64(len(g))
		if c.load == 90 {
			worst90 = max(worst90, p90)
			continue
		}
		worst = max(worst, p90)
		worst50 = max(worst50, played[ours].p50/least(played, func(m means) float64 { return m.p50 }))
		worstE2E = max(worstE2E, played[ours].endToEnd/least(played, func(m means) float64 { return m.endToEnd }))
	}
	out("sim_best", "", worst)
	out("sim_best", "at_90", worst90)
	out("sim_best", "mean", math.Exp(logs))
	out("sim_best_p50", "", worst50)
	out("sim_best_e2e", "", worstE2E)
}

func least(played map[string]means, value func(means) float64) float64 {
	best := math.Inf(1)
	for _, name := range rivals() {
		best = min(best, value(played[name]))
	}
	return best
}
