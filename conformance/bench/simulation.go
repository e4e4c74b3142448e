package main

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	_ "embed"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/penstock-project/penstock/picker/simulation"
)

// The figures sim_* compare strategies of picking by simulation (package picker/simulation), in
// virtual time: they do not depend on the machine. Each is a mean of drawings, of which all
// strategies get the same arrivals.

const (
	drawings = 5
	// requestsDrawn is how many requests a drawing has; those of the first fifth of its time warm
	// the caches.
	requestsDrawn = 8000
	requestsTrace = 6000
	ours          = "load"
	// reference is the cost in seconds with exact knowledge. It is in the tables, and no rival.
	reference = "reference"
)

// fullLoad is 100 % load of 8 servers, in requests a second, by workload: the rate at which the
// 90th percentile of the time from arrival to first scheduled is 5 s with the best strategy
// (reference), as the mean of 5 drawings; found by simulation.Capacity. sim_capacity measures the
// capacity of ours and of the best rival again.
var fullLoad = map[string]float64{
	"chat": 32.4, "rag": 8.82, "documents": 56.2, "lora": 14.1, "bursts": 7.16, "agents": 22.1, "conversation": 5.61,
	"conversation-spread": 5.61,
}

// sources returns the workloads: the generated ones, and the trace as it is and with the requests
// of each timestamp spread.
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

// means are the means of the drawings of one strategy, in seconds.
type means struct{ p50, p90, wait90, endToEnd, goodput, hits, balance float64 }

func meansOf(summaries []simulation.Summary) (m means) {
	n := float64(len(summaries))
	for _, s := range summaries {
		m.p50 += s.TTFT50.Seconds() / n
		m.p90 += s.TTFT90.Seconds() / n
		m.wait90 += s.WaitP90.Seconds() / n
		m.endToEnd += s.EndToEnd.Seconds() / n
		m.goodput += s.Goodput / n
		m.hits += s.Hits / n
		m.balance += s.Balance / n
	}
	return m
}

// rivals returns the names of all strategies that ours is compared with.
func rivals() []string {
	return slices.DeleteFunc(simulation.Names(), func(name string) bool { return name == ours || name == reference })
}

// strategy returns the strategy with a name.
func strategy(name string) simulation.Strategy {
	s, err := simulation.Named(name)
	if err != nil {
		panic(err)
	}
	return s[0]
}

// plays plays drawings of a source for several scenarios, and returns the means of each.
func plays(source simulation.Source, rate float64, n int, scenarios ...simulation.Scenario) []means {
	var trials []simulation.Trial
	drawn := simulation.Drawings(simulation.Scenario{}, source, rate, n)
	for _, s := range scenarios {
		for _, d := range drawn {
			s.Workload, s.Seed = d.Workload, d.Seed
			trials = append(trials, simulation.Trial{Scenario: s})
		}
	}
	summaries := simulation.Play(trials)
	out := make([]means, len(scenarios))
	for i := range out {
		out[i] = meansOf(summaries[i*n : (i+1)*n])
	}
	return out
}

// cell is one workload at one load.
type cell struct {
	workload string
	load     int // percent
}

// grid has the means of all strategies in all cells.
type grid map[cell]map[string]means

var loads = []int{50, 70, 90}

// measureBest compares ours with all rivals.
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
			var scenarios []simulation.Scenario
			for _, name := range simulation.Names() {
				scenarios = append(scenarios, simulation.Scenario{Strategy: strategy(name)})
			}
			of := map[string]means{}
			for i, m := range plays(source, fullLoad[source.Name]*float64(load)/100, drawings, scenarios...) {
				of[scenarios[i].Strategy.Name] = m
			}
			g[cell{source.Name, load}] = of
		}
	}
	g.print(os.Stderr, all)
	g.report(out)
	return nil
}

// measureDocs compares ours with rivals that look at prefixes where documents are shared: each
// server has room for half of them, or all servers together have room for each once.
func measureDocs(ctx context.Context, _ config, out report) error {
	all, err := sources()
	if err != nil {
		return err
	}
	source := all[slices.IndexFunc(all, func(s simulation.Source) bool { return s.Name == "documents" })]
	half, once := 0.0, 0.0
	for _, load := range loads[:2] {
		for _, of := range []struct {
			blocks int // of a server
			full   float64
			worst  *float64
		}{{0, fullLoad[source.Name], &half}, {400, 33.3, &once}} {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			// All others read documents again and again.
			names := []string{"llm-d", "sglang", "smg", "bounded-hash", ours}
			var scenarios []simulation.Scenario
			for _, name := range names {
				scenarios = append(scenarios, simulation.Scenario{
					Strategy: strategy(name), Server: simulation.ServerConfig{Blocks: of.blocks},
				})
			}
			played := map[string]means{}
			for i, m := range plays(source, of.full*float64(load)/100, drawings, scenarios...) {
				played[names[i]] = m
				fmt.Fprintf(os.Stderr, "%d %%, caches of %d blocks, %s: TTFT p90 %.3g s, cached %.3f\n", load,
					cmp.Or(of.blocks, 1500), names[i], m.p90, m.hits)
			}
			best := math.Inf(1)
			for _, name := range names[:len(names)-1] {
				best = min(best, played[name].p90)
			}
			*of.worst = max(*of.worst, played[ours].p90/best)
		}
	}
	out("sim_docs", "", half)
	out("sim_docs", "once", once)
	return nil
}

// print writes a table of TTFT p90 and p50.
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

// report emits the figures.
func (g grid) report(out report) {
	chat := func(load int) float64 {
		of := g[cell{"chat", load}]
		return of[ours].p50 / of["exact-least-request"].p50
	}
	out("sim_chat", "", chat(70))
	out("sim_chat", "at_50", chat(50))

	var worst, worst90, worst50, worstE2E, logs float64
	for c, of := range g {
		p90 := of[ours].p90 / least(of, func(m means) float64 { return m.p90 })
		logs += math.Log(p90) / float64(len(g))
		if c.load == 90 {
			worst90 = max(worst90, p90)
			continue
		}
		worst = max(worst, p90)
		worst50 = max(worst50, of[ours].p50/least(of, func(m means) float64 { return m.p50 }))
		worstE2E = max(worstE2E, of[ours].endToEnd/least(of, func(m means) float64 { return m.endToEnd }))
	}
	out("sim_best", "", worst)
	out("sim_best", "at_90", worst90)
	out("sim_best", "mean", math.Exp(logs))
	out("sim_best_p50", "", worst50)
	out("sim_best_e2e", "", worstE2E)
	of70 := 0.0
	for c, of := range g {
		if c.load == 70 {
			of70 += math.Log(of[ours].p90/of[reference].p90) / float64(len(g)/len(loads))
		}
	}
	out("sim_best", "vs_reference", math.Exp(of70))
}

// least returns the best rival's value.
func least(of map[string]means, value func(means) float64) float64 {
	best := math.Inf(1)
	for _, name := range rivals() {
		best = min(best, value(of[name]))
	}
	return best
}

// worst reports a figure's largest value of all workloads.
func worst(ctx context.Context, out report, figure string, of func(simulation.Source) float64) error {
	all, err := sources()
	if err != nil {
		return err
	}
	most := 0.0
	for _, source := range all {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		most = max(most, of(source))
	}
	out(figure, "", most)
	return nil
}

// measureCapacity compares the rates at which the wait for a place reaches 5 s. Of the rivals it
// bisects for the one that waits least at our own capacity.
func measureCapacity(ctx context.Context, _ config, out report) error {
	return worst(ctx, out, "sim_capacity", func(source simulation.Source) float64 {
		mine := simulation.Capacity(simulation.Scenario{Strategy: strategy(ours)}, source, fullLoad[source.Name],
			drawings)
		waits := map[string]float64{}
		for _, name := range rivals() {
			waits[name] = plays(source, mine, 2, simulation.Scenario{Strategy: strategy(name)})[0].wait90
		}
		best := slices.MinFunc(slices.Sorted(maps.Keys(waits)),
			func(a, b string) int { return int(math.Copysign(1, waits[a]-waits[b])) })
		rival := simulation.Capacity(simulation.Scenario{Strategy: strategy(best)}, source, mine, drawings)
		fmt.Fprintf(os.Stderr, "capacity of %s: %.2f/s; %s %.2f/s; 100 %% load is %.2f/s\n", source.Name, mine, best,
			rival, fullLoad[source.Name])
		return rival / mine
	})
}

// ratios plays pairs of scenarios with our strategy at 70 % load, and returns the geometric mean
// over the workloads of each one's TTFT p90 over that of base.
func ratios(ctx context.Context, base simulation.Scenario, others ...simulation.Scenario) ([]float64, error) {
	all, err := sources()
	if err != nil {
		return nil, err
	}
	logs := make([]float64, len(others))
	for _, source := range all {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		m := plays(source, 0.7*fullLoad[source.Name], drawings, append([]simulation.Scenario{base}, others...)...)
		for i := range others {
			logs[i] += math.Log(m[1+i].p90/m[0].p90) / float64(len(all))
			fmt.Fprintf(os.Stderr, "%s: TTFT p90 %.3g s, base %.3g s\n", source.Name, m[1+i].p90, m[0].p90)
		}
	}
	for i := range logs {
		logs[i] = math.Exp(logs[i])
	}
	return logs, nil
}

func measureTwoPickers(ctx context.Context, _ config, out report) error {
	one := simulation.Scenario{Strategy: strategy(ours)}
	two, apart := one, one
	two.Pickers, two.Publish = 2, 50*time.Millisecond
	apart.Pickers, apart.Publish = 2, -1
	r, err := ratios(ctx, one, two, apart)
	if err != nil {
		return err
	}
	out("sim_two_pickers", "", r[0])
	out("sim_two_pickers", "apart", r[1])
	return nil
}

func measureSlowPages(ctx context.Context, _ config, out report) error {
	fresh := simulation.Scenario{Strategy: strategy(ours), Pickers: 2, Publish: -1}
	slow, gone := fresh, fresh
	// The registry pauses for twice the time that a slow page takes more than the fast interval.
	slow.Pages = simulation.Pages{Takes: time.Second, Every: 1900 * time.Millisecond}
	gone.Pages = simulation.Pages{Gone: true}
	r, err := ratios(ctx, fresh, slow, gone)
	if err != nil {
		return err
	}
	out("sim_slow_pages", "", max(r[0], r[1]))
	out("sim_slow_pages", "slow", r[0])
	out("sim_slow_pages", "gone", r[1])
	return nil
}

// measureJoin has the eighth server join empty, and compares the ten seconds from then on with
// those of the same drawings in which it was there from the start. Requests of all drawings count
// together: each has few in ten seconds.
func measureJoin(ctx context.Context, _ config, out report) error {
	const joins, load, after = 20, 0.45, 10 * time.Second
	return worst(ctx, out, "sim_join", func(source simulation.Source) float64 {
		var joined, steady [joins][]time.Duration
		simulation.Each(joins, func(i int) {
			s := simulation.Scenario{Strategy: strategy(ours), Workload: source.Draw(load*fullLoad[source.Name], i+1),
				Seed: uint64(i + 1)}
			at := 3 * s.Workload.Warm()
			steady[i] = simulation.TTFTs(s.Workload, simulation.Run(s), at, at+after)
			s.JoinAt = at
			joined[i] = simulation.TTFTs(s.Workload, simulation.Run(s), at, at+after)
		})
		r := p90(slices.Concat(joined[:]...)).Seconds() / p90(slices.Concat(steady[:]...)).Seconds()
		fmt.Fprintf(os.Stderr, "%s: after a join %.2f\n", source.Name, r)
		return r
	})
}

func p90(times []time.Duration) time.Duration {
	slices.Sort(times)
	return times[len(times)*9/10]
}

// measureOverload sends three times as many requests as 100 % load, and has those shed whose server
// predicts a wait of more than 1.5 s.
func measureOverload(ctx context.Context, _ config, out report) error {
	return worst(ctx, out, "sim_overload_lost", func(source simulation.Source) float64 {
		full := fullLoad[source.Name]
		m := plays(source, 3*full, drawings, simulation.Scenario{
			Strategy: strategy(ours), ShedAfter: 1500 * time.Millisecond,
		})[0]
		fmt.Fprintf(os.Stderr, "%s: goodput at 3 x load %.2f of capacity\n", source.Name, m.goodput/full)
		return 1 - m.goodput/full
	})
}
