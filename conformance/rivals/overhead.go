package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/penstock-project/penstock/conformance/promises/process"
)

const overheadName = "overhead"

const directName = "direct"

// overheads are the sizes of requests. A router gets one request at a time. In each round, every
// router gets the same number of requests, so that noise affects all equally.
var overheads = []struct {
	name   string
	bytes  int
	rounds int // the first round does not count
}{{"1k", 1 << 10, 60}, {"100k", 100 << 10, 20}}

const (
	requestsOfRound = 25
	// The throughput of the first turn does not count.
	throughputClients = 16
	throughputTurns   = 6
	throughputTurn    = time.Second
)

type added struct {
	size, router string
	p50, p99     ratio         // time added to a direct request, in seconds; for directName, its whole time
	control, cpu time.Duration // CPU time of a request: of the router's first process, and of all its processes
	rate         float64       // largest rate, in requests a second; 0: not measured
	overSMG      *ratio        // ratio of p50 to smg's p50; nil for rivals, or without smg
}

type target struct {
	name, url    string
	client       *http.Client
	pid          int
	times        series
	control, cpu time.Duration
	rates        []float64
}

// overhead measures how much time each contender adds to a request whose server answers at once.
// The error names contenders that did not start.
func overhead(ctx context.Context, penstock, envoy string, all []contender) ([]added, error) {
	folder, err := os.MkdirTemp("", "rivals")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	programs := &programs{penstock: penstock, envoy: envoy, ports: &process.Ports{}, folder: folder}
	var targets []target
	var failures []error
	for _, c := range all {
		f, err := programs.start(ctx, c, serversOfFleet, nil)
		if err != nil {
			failures = append(failures, err)
			continue
		}
		defer f.stop()
		if len(targets) == 0 {
			targets = append(targets, target{name: directName, url: f.direct, client: newClient()})
		}
		targets = append(targets, target{name: f.name, url: f.url, client: f.client, pid: f.router.PID()})
	}
	if len(targets) == 0 {
		return nil, errors.Join(failures...)
	}
	var out []added
	for _, size := range overheads {
		for i := range targets {
			targets[i].times, targets[i].control, targets[i].cpu = nil, 0, 0
		}
		for round := range size.rounds {
			for i := range targets {
				t := &targets[(i+round)%len(targets)]
				if err := t.measure(ctx, size.bytes, round); err != nil {
					return nil, fmt.Errorf("%s, %s: %w", t.name, size.name, err)
				}
			}
		}
		out = append(out, addedOf(size.name, targets)...)
	}
	for turn := range throughputTurns {
		for i := range targets {
			t := &targets[(i+turn)%len(targets)]
			if err := t.saturate(ctx, turn); err != nil {
				return nil, fmt.Errorf("%s, %d clients: %w", t.name, throughputClients, err)
			}
		}
	}
	for i, t := range targets { // out begins with the targets' results for the smallest size
		out[i].rate = quantile(0.5)(t.rates)
	}
	return out, errors.Join(failures...)
}

func (t *target) measure(ctx context.Context, size, round int) error {
	var bodies [][]byte
	for i := range requestsOfRound {
		bodies = append(bodies, plain(size, uint64(round*requestsOfRound+i)))
	}
	control, before := cpu(t.pid)
	var times []float64
	for _, body := range bodies {
		begin := time.Now()
		if err := ask(ctx, t.client, t.url, body); err != nil {
			return err
		}
		times = append(times, time.Since(begin).Seconds())
	}
	if round > 0 {
		own, all := cpu(t.pid)
		t.times = append(t.times, times)
		t.control += own - control
		t.cpu += all - before
	}
	return nil
}

func (t *target) saturate(ctx context.Context, turn int) error {
	begin := time.Now()
	var served atomic.Int64
	var all errgroup.Group
	for i := range throughputClients {
		all.Go(func() error {
			for n := 0; time.Since(begin) < throughputTurn; n++ {
				number := uint64(1)<<30 | uint64(turn)<<24 | uint64(i)<<16 | uint64(n)
				if err := ask(ctx, t.client, t.url, plain(overheads[0].bytes, number)); err != nil {
					return err
				}
				served.Add(1)
			}
			return nil
		})
	}
	err := all.Wait()
	if turn > 0 {
		t.rates = append(t.rates, float64(served.Load())/time.Since(begin).Seconds())
	}
	return err
}

func plain(size int, number uint64) []byte {
	text := appendBlock(nil, 1<<41|number, size/4)
	out, err := json.Marshal(map[string]any{
		"model": model, "max_tokens": 1,
		"messages": []any{map[string]string{"role": "user", "content": string(text[:min(len(text), size)])}},
	})
	if err != nil {
		panic(err) // cannot fail: the fields are strings and numbers
	}
	return out
}

func ask(ctx context.Context, client *http.Client, url string, body []byte) error {
	resp, err := post(ctx, client, url, body)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return errors.Join(err, resp.Body.Close())
}

func above(direct, router series, q float64) ratio {
	at := quantile(q)
	return resampled(len(router), func(drawn []int) float64 {
		return at(router.pooled(drawn)) - at(direct.pooled(drawn))
	})
}

// targets[0] is the server without a router.
func addedOf(size string, targets []target) (out []added) {
	direct := targets[0].times
	none := make(series, len(direct))
	for i := range none {
		none[i] = []float64{0}
	}
	smg := slices.IndexFunc(targets, func(t target) bool { return t.name == smgName })
	for i, t := range targets {
		n := time.Duration(len(t.times) * requestsOfRound)
		a := added{size: size, router: t.name, control: t.control / n, cpu: t.cpu / n}
		base := direct
		if i == 0 {
			base = none
		}
		a.p50, a.p99 = above(base, t.times, 0.5), above(base, t.times, 0.99)
		if t.name == penstockName && smg >= 0 {
			median, rival := quantile(0.5), targets[smg].times
			r := resampled(len(direct), func(drawn []int) float64 {
				floor := median(direct.pooled(drawn))
				return (median(t.times.pooled(drawn)) - floor) / (median(rival.pooled(drawn)) - floor)
			})
			a.overSMG = &r
		}
		out = append(out, a)
	}
	return out
}

func printOverhead(to io.Writer, all []added) {
	fmt.Fprintf(to, "\n%s: what a router adds to a request that its server answers at once; %s: the time itself. "+
		"Intervals have 95 %%; CPU is of all processes of a router, and of its first one alone (of Penstock all "+
		"but Envoy); "+
		"the rate is of %d clients, which use the same cores.\n", overheadName, directName, throughputClients)
	table := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "request\trouter\tp50 ms\tp99 ms\tCPU ms\tfirst\trequests/s")
	for _, a := range all {
		rate := ""
		if a.rate > 0 {
			rate = fmt.Sprintf("%.0f", a.rate)
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%.2f\t%.2f\t%s\n",
			a.size, a.router, inMS(a.p50), inMS(a.p99), ms(a.cpu), ms(a.control), rate)
	}
	_ = table.Flush()
}

func ms(d time.Duration) float64 { return d.Seconds() * 1000 }

func inMS(r ratio) string {
	return fmt.Sprintf("%.2f (%.2f to %.2f)", 1000*r.value, 1000*r.low, 1000*r.high)
}

func overheadFigures(all []added) (out []figure) {
	for _, a := range all {
		if r := a.overSMG; r != nil && a.size == overheads[0].name && r.value > 0 {
			limit := 1.3
			out = append(out, figure{"added_1k", round(r.value), "ratio", &limit, fmt.Sprintf(
				"Added latency of a request of 1 KB, p50: of a pool of Penstock over smg's, in turns (95 %%: "+
					"%.2f to %.2f).",
				r.low, r.high)})
		}
	}
	for _, a := range all {
		if a.router == secondName {
			continue
		}
		add := func(what string, value float64, unit string) {
			name := "added_" + a.size + "." + what + "." + strings.ReplaceAll(a.router, " ", "_")
			out = append(out, figure{Name: name, Value: round(value), Unit: unit})
		}
		add("p50", 1000*a.p50.value, "ms")
		add("p99", 1000*a.p99.value, "ms")
		if a.cpu > 0 {
			add("cpu", ms(a.cpu), "ms")
		}
		if a.rate > 0 {
			add("rate", a.rate, "1/s")
		}
	}
	return out
}
