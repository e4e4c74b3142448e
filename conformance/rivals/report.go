package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"text/tabwriter"
)

type measure struct {
	name string
	stat statistic
	from func(*outcome) series
}

var measures = []measure{
	{"TTFT p50", quantile(0.5), func(o *outcome) series { return o.ttft }},
	{"TTFT p90", quantile(0.9), func(o *outcome) series { return o.ttft }},
	{"mean time to the end", mean, func(o *outcome) series { return o.end }},
}

// p90 is the index of TTFT p90 in measures, the only measure with limits.
const p90 = 1

func (m *measure) value(o *outcome) float64 { return m.stat(slices.Concat(m.from(o)...)) }

type comparison struct {
	*played
	ratios map[string][]ratio // by name; only of compared contenders
}

func compareAll(p *played) comparison {
	c := comparison{played: p, ratios: map[string][]ratio{}}
	if p.void() || !p.outcomes[0].compared() {
		return c
	}
	for i := 1; i < len(p.outcomes); i++ {
		o := &p.outcomes[i]
		if !o.compared() {
			continue
		}
		var ratios []ratio
		for _, m := range measures {
			if r := compare(m.from(&p.outcomes[0]), m.from(o), m.stat); !math.IsNaN(r.value) {
				ratios = append(ratios, r)
			}
		}
		if len(ratios) == len(measures) {
			c.ratios[o.name] = ratios
		}
	}
	return c
}

func (c *comparison) print(to io.Writer) {
	fmt.Fprintf(to, "\n%s: %s %d requests to each, p99 of lateness %.2g ms",
		c.name, c.about, len(c.outcomes[0].samples), c.late.Seconds()*1000)
	if c.void() {
		fmt.Fprintf(to, ": VOID, above %s: the machine was too busy, so nothing is compared", maxLate)
	}
	fmt.Fprintln(to)
	table := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprint(table, "\tcached\tfailed\tCPU a request")
	for _, m := range measures {
		fmt.Fprintf(table, "\t%s\tPenstock over it", m.name)
	}
	fmt.Fprintln(table)
	again := c.ratios[secondName]
	for i := range c.outcomes {
		o := &c.outcomes[i]
		cached := 100 * float64(o.cached) / float64(max(o.input, 1))
		fmt.Fprintf(table, "%s\t%.0f %%\t%d\t%.1f ms", o.name, cached, o.failed, ms(o.cpu))
		for k, m := range measures {
			text := "-"
			if r := c.ratios[o.name]; r != nil {
				text = r[k].text(again, k, o.name == secondName)
			}
			fmt.Fprintf(table, "\t%.3f s\t%s", m.value(o), text)
		}
		fmt.Fprintln(table)
	}
	_ = table.Flush()
	for _, name := range slices.Sorted(maps.Keys(c.simulated)) {
		text := "not compared here"
		if factor, ok := c.factor(name); ok {
			text = fmt.Sprintf("%.2f times that here", factor)
		}
		fmt.Fprintf(to, "TTFT p90 of Penstock over %s as picker/simulation re-states it: %.2f, %s\n", name,
			c.simulated[name], text)
	}
	for i := range c.outcomes {
		if o := &c.outcomes[i]; o.failed > 0 {
			fmt.Fprintf(to, "%s failed %d requests; the first: %v\n", o.name, o.failed, o.first)
		}
	}
}

// factor returns the simulated ratio of TTFT p90, divided by the measured ratio. It is 1 if the
// simulation of the rival is exact.
func (c *comparison) factor(rival string) (float64, bool) {
	r, ok := c.ratios[rival]
	if !ok || c.simulated[rival] == 0 {
		return 0, false
	}
	return c.simulated[rival] / r[p90].value, true
}

func (r ratio) text(again []ratio, k int, itself bool) string {
	interval := fmt.Sprintf("%.2f (%.2f to %.2f)", r.value, r.low, r.high)
	switch {
	case itself:
		return interval + fmt.Sprintf(", noise %.2f", r.noise())
	case again == nil:
		return interval + ", noise unknown"
	case r.equal(again[k].noise()):
		return "equal: " + interval
	}
	return interval
}

type figure struct {
	Name  string   `json:"name"`
	Value float64  `json:"value"`
	Unit  string   `json:"unit"`
	Limit *float64 `json:"limit"`
	About string   `json:"about,omitempty"`
}

func figures(all []comparison, by scenario) (out []figure) {
	add := func(name string, value float64, unit string, limit float64, about string) {
		f := figure{Name: name + by.suffix(), Value: round(value), Unit: unit, About: about}
		if limit > 0 && by == usual {
			f.Limit = &limit
		}
		if !math.IsNaN(value) && !math.IsInf(value, 0) {
			out = append(out, f)
		}
	}
	worst, noise, late := 0.0, 0.0, 0.0
	top := make([]geometric, len(measures))
	each, factors := map[string]*geometric{}, map[string]*geometric{}
	var names []string
	for _, c := range all {
		late = max(late, c.late.Seconds()*1000)
		if again := c.ratios[secondName]; again != nil {
			noise = max(noise, again[p90].noise())
		}
		for k := range measures {
			most := 0.0 // the largest ratio of Penstock to a rival
			for i := 1; i < len(c.outcomes); i++ {
				name := c.outcomes[i].name
				if r := c.ratios[name]; r != nil && name != secondName {
					most = max(most, r[k].value)
					if k == p90 {
						if each[name] == nil {
							names = append(names, name)
							each[name], factors[name] = &geometric{}, &geometric{}
						}
						each[name].add(r[k].value)
						if factor, ok := c.factor(name); ok && by.rivals == defaults {
							factors[name].add(factor)
						}
					}
				}
			}
			if most == 0 {
				continue
			}
			top[k].add(most)
			if k == p90 {
				worst = max(worst, most)
				add("rivals_p90."+c.name, most, "ratio", 0, "")
			}
		}
	}
	if worst > 0 {
		about := fmt.Sprintf("TTFT p90 of Penstock over the best rival's of each workload, real processes with "+
			"%s, at %.0f %% load: the worst of %d workloads.", by.rivals, 100*by.load, top[p90].n)
		add("rivals_p90", worst, "ratio", 1.10, about)
		add("rivals_p90_mean", top[p90].mean(), "ratio", 0.90, "The geometric mean of these workloads.")
		for _, name := range names {
			add("rivals_p90_mean."+name, each[name].mean(), "ratio", 0,
				fmt.Sprintf("The same over %s alone, of %d workloads.", name, each[name].n))
			add("rivals_restated."+name, factors[name].mean(), "ratio", 0,
				"TTFT p90 of Penstock over it as picker/simulation re-states it, over the ratio of real "+
					"processes: the geometric mean. Below 1, the simulation flatters Penstock.")
		}
		add("rivals_p50_mean", top[0].mean(), "ratio", 0,
			"The same for TTFT p50, over the best rival of each workload.")
		add("rivals_end_mean", top[2].mean(), "ratio", 0, "The same for the mean time to the end.")
	}
	if noise > 0 {
		add("rivals_noise", noise, "ratio", 0, "TTFT p90 of Penstock over a second Penstock: the largest ratio in the "+
			"interval, or its inverse, of the worst workload.")
	}
	add("rivals_late", late, "ms", maxLate.Seconds()*1000, "How late the load generator sent: the 99th percentile of "+
		"the worst workload. Workloads above the limit are void.")
	return out
}

type geometric struct {
	logs float64
	n    int
}

func (g *geometric) add(v float64) { g.logs, g.n = g.logs+math.Log(v), g.n+1 }
func (g *geometric) mean() float64 { return math.Exp(g.logs / float64(g.n)) }

func round(v float64) float64 {
	var out float64
	_, _ = fmt.Sscanf(fmt.Sprintf("%.3g", v), "%g", &out)
	return out
}

func emit(to io.Writer, all []figure) error {
	lines := json.NewEncoder(to)
	for _, f := range all {
		if err := lines.Encode(f); err != nil {
			return err
		}
	}
	return nil
}
