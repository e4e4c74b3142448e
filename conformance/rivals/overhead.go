package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/penstock-project/penstock/conformance/promises/process"
)

// overheadName is the name of this comparison among the workloads.
const overheadName = "overhead"

// directName is a server without a router.
const directName = "direct"

// overheads are the sizes of requests whose overhead is measured. Requests go one after the other, in
// rounds of the same number to each router in turn, so that noise hits all alike.
var overheads = []struct {
	name   string
	bytes  int
	rounds int // the first does not count
}{{"1k", 1 << 10, 60}, {"100k", 100 << 10, 20}}

// requestsOfRound is how many requests a router gets in a row.
const requestsOfRound = 25

// added is what a router adds to a request of a size.
type added struct {
	size, router string
	p50, p99     time.Duration // above a server without a router; of directName the times themselves
	cpu          time.Duration // of all processes of the router, for one request
}

// target is a router, or a server without one.
type target struct {
	name, url string
	client    *http.Client
	pid       int // 0: none
	times     []float64
	cpu       time.Duration
}

// overhead measures what each contender adds to the time of a request whose server answers at once.
func overhead(ctx context.Context, penstock, envoy string, all []contender) ([]added, error) {
	folder, err := os.MkdirTemp("", "rivals")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	programs := &programs{penstock: penstock, envoy: envoy, ports: &process.Ports{}, folder: folder}
	var targets []target
	for _, c := range append(slices.Clone(all), contender{name: serviceName}) {
		f, err := programs.start(ctx, c, serversOfFleet, nil)
		if err != nil {
			return nil, err
		}
		defer f.stop()
		if len(targets) == 0 {
			targets = append(targets, target{name: directName, url: f.direct, client: newClient()})
		}
		targets = append(targets, target{name: f.name, url: f.url, client: f.client, pid: f.router.PID()})
	}
	var out []added
	for _, size := range overheads {
		for i := range targets {
			targets[i].times, targets[i].cpu = nil, 0
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
	return out, nil
}

// measure sends the requests of a round, of which each has a prompt of its own.
func (t *target) measure(ctx context.Context, size, round int) error {
	var bodies [][]byte
	for i := range requestsOfRound {
		bodies = append(bodies, plain(size, uint64(round*requestsOfRound+i)))
	}
	before := time.Duration(0)
	if t.pid != 0 {
		before = cpu(t.pid)
	}
	for _, body := range bodies {
		begin := time.Now()
		if err := ask(ctx, t.client, t.url, body); err != nil {
			return err
		}
		if round > 0 {
			t.times = append(t.times, time.Since(begin).Seconds())
		}
	}
	if t.pid != 0 && round > 0 {
		t.cpu += cpu(t.pid) - before
	}
	return nil
}

// plain is a completion that is not streamed, of about so many bytes.
func plain(size int, number uint64) []byte {
	text := appendBlock(nil, 1<<41|number, size/4)
	out, err := json.Marshal(map[string]any{
		"model": model, "max_tokens": 1,
		"messages": []any{map[string]string{"role": "user", "content": string(text[:min(len(text), size)])}},
	})
	if err != nil {
		panic(err) // strings and numbers
	}
	return out
}

func ask(ctx context.Context, client *http.Client, url string, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/chat/completions", bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("content-type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxLine))
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %.200s", resp.Status, text)
	}
	return err
}

// addedOf computes what routers add to the times of the first target.
func addedOf(size string, targets []target) (out []added) {
	seconds := func(v float64) time.Duration { return time.Duration(v * float64(time.Second)) }
	var direct added
	for i, t := range targets {
		a := added{size: size, router: t.name, cpu: t.cpu / time.Duration(len(t.times))}
		a.p50, a.p99 = seconds(quantile(0.5)(t.times)), seconds(quantile(0.99)(t.times))
		if i == 0 {
			direct = a
		} else {
			a.p50, a.p99 = a.p50-direct.p50, a.p99-direct.p99
		}
		out = append(out, a)
	}
	return out
}

// printOverhead writes the table.
func printOverhead(to io.Writer, all []added) {
	fmt.Fprintf(to, "\n%s: what a router adds to a request that its server answers at once; %s: the time itself\n",
		overheadName, directName)
	table := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "request\trouter\tp50 ms\tp99 ms\tCPU ms")
	for _, a := range all {
		fmt.Fprintf(table, "%s\t%s\t%.2f\t%.2f\t%.2f\n", a.size, a.router, ms(a.p50), ms(a.p99), ms(a.cpu))
	}
	_ = table.Flush()
}

func ms(d time.Duration) float64 { return d.Seconds() * 1000 }

// overheadFigures returns the figures of overhead: added_1k is a ratio to smg, if smg is there.
func overheadFigures(all []added) (out []figure) {
	at := func(size, router string) int {
		return slices.IndexFunc(all, func(a added) bool { return a.size == size && a.router == router })
	}
	if ours, smg := at("1k", penstockName), at("1k", "smg"); ours >= 0 && smg >= 0 && all[smg].p50 > 0 {
		limit := 1.3
		out = append(out, figure{"added_1k", round(float64(all[ours].p50) / float64(all[smg].p50)), "ratio", &limit,
			"Added latency of a request of 1 KB, p50: of a pool of Penstock over that of smg, in turns."})
	}
	for _, a := range all {
		if a.router == secondName {
			continue
		}
		add := func(what string, value time.Duration) {
			name := "added_" + a.size + "." + what + "." + strings.ReplaceAll(a.router, " ", "_")
			out = append(out, figure{Name: name, Value: round(ms(value)), Unit: "ms"})
		}
		add("p50", a.p50)
		add("p99", a.p99)
		if a.cpu > 0 {
			add("cpu", a.cpu)
		}
	}
	return out
}
