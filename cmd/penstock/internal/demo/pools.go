package demo

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/penstock-project/penstock/picker"
	"github.com/penstock-project/penstock/picker/external/tokenstore"
	"github.com/penstock-project/penstock/picker/modelserver"
	"github.com/penstock-project/penstock/picker/schedule"
)

// Latencies of the simulated servers. A short answer is fast; a long one leaves time to observe the
// requests in flight.
const (
	firstToken = 5 * time.Millisecond
	perToken   = 60 * time.Millisecond
)

// servers are the model servers of the demo of pools, and their models.
var servers = []struct{ name, model string }{
	{"llama-1", "llama"}, {"llama-2", "llama"}, {"qwen-1", "qwen"}, {"qwen-2", "qwen"},
	{"east-llama-1", "llama"}, {"east-llama-2", "llama"}, {"gemma-1", "gemma"}, {"gemma-2", "gemma"},
}

func names(model string) (out []string) {
	for _, server := range servers {
		if server.model == model && !strings.HasPrefix(server.name, "east-") {
			out = append(out, server.name)
		}
	}
	return out
}

func poolsScript() script {
	return script{
		folder: "config", sites: []string{"here", "east"}, ports: []string{"east-picker"},
		prepare: preparePools, begin: beginPools,
		steps: []func(*show) []any{
			twoPools, streamed, endpointMode, parentMode, split, spill, conversation, adapter, overload, prepared,
		},
	}
}

func preparePools(d *show) {
	store := tokenstore.New(tokenstore.Config{}, prometheus.NewRegistry())
	tokens := d.external("tokens", tokenstore.ServerConfig(), store.Paths)
	for _, server := range servers {
		c := modelserver.Config{Model: server.model, TimeToFirstToken: firstToken, InterTokenLatency: perToken}
		switch server.model {
		case "gemma":
			c.PrefixCaching, c.PrefillRate, c.KVCacheTokens, c.LoRAs = true, prefillRate, cacheTokens, adapters
		case "qwen":
			c.Tokens = must(tokenstore.NewClient(tokens, time.Second))
		}
		d.model(server.name, c)
	}
	d.processors(tokens)
}

func beginPools(d *show) {
	pool := func(model, prefix string) string {
		return fmt.Sprintf("   pool %s: %s %s", model, d.server(prefix+model+"-1"), d.server(prefix+model+"-2"))
	}
	d.line("   here  %s%s%s%s", d.url, pool("llama", ""), pool("qwen", ""), pool("gemma", ""))
	d.line("   east  %s%s\n", d.clusters["east"].url(), pool("llama", "east-"))
	d.command(d.fill("GW=@url   STATE=@state"))
}

func (d *show) explain(more ...string) {
	args := append([]string{"-X", "POST"}, more...)
	path := d.step.Prefix + completions
	d.command(fmt.Sprintf("%s explain $GW%s \\\n       %s --state $STATE", d.cfg.Typed, path, strings.Join(args, " ")))
	args = append([]string{"explain", d.url + path, "--state", d.state("here")}, args...)
	shown := ""
	for line := range strings.Lines(string(must(d.penstock(d.ctx, args...).Output()))) {
		if word := before(line, " "); word == "" || word == "backend" || word == "route" {
			shown += line
		}
	}
	d.output(shown)
}

func (d *show) waitState(pool string, reached func([]schedule.Verdict) bool) {
	check(wait(d.ctx, func() bool {
		var now picker.Explanation
		check(d.cfg.Ask(d.ctx, d.state("here"), "/debug/pool?pool="+url.QueryEscape(pool), &now))
		return reached(now.Verdicts)
	}))
}

func (d *show) pause(t time.Duration) {
	select {
	case <-time.After(t):
	case <-d.ctx.Done():
	}
}

// waitRecordable waits until the next pick will be recorded: a picker records at most one pick of a
// pool in 20 ms. It returns the time.
func (d *show) waitRecordable() time.Time {
	d.pause(25 * time.Millisecond)
	return time.Now()
}

// picks returns the picks of a pool that a cluster's picker has recorded since a time, newest
// first.
func (d *show) picks(cluster, pool string, since time.Time) []picker.Record {
	var out struct{ Picks []picker.Record }
	check(d.cfg.Ask(d.ctx, d.state(cluster), "/debug/picks?pool="+url.QueryEscape(pool), &out))
	for i, p := range out.Picks {
		if p.Time.Before(since) {
			return out.Picks[:i]
		}
	}
	return out.Picks
}

func (d *show) recorded(cluster, pool string, since time.Time) picker.Record {
	picks := d.picks(cluster, pool, since)
	expect(len(picks) > 0, "the picker of cluster %s to have picked from %s, but it has no record of that", cluster,
		pool)
	return picks[0]
}

func comparison(pick picker.Record) string {
	var loads []string
	different := map[float64]bool{}
	for _, v := range pick.Verdicts {
		load := v.State.Queue + v.State.Running + float64(v.State.InFlight)
		different[load] = true
		loads = append(loads, fmt.Sprintf("%s %.0f", before(v.Pod, "/"), load))
	}
	if len(different) <= 1 {
		return fmt.Sprintf("found %d servers with equal load, and chose one at random.", len(loads))
	}
	return fmt.Sprintf("compared their load (%s).", strings.Join(loads, ", "))
}

func before(text, separator string) string {
	head, _, _ := strings.Cut(text, separator)
	return head
}

func twoPools(d *show) []any {
	for _, model := range []string{"llama", "qwen"} {
		began := time.Now()
		a := d.exchange("", question(model, "Hello there", 0), model+"-")
		pick := d.recorded("here", "default/"+model, began)
		expect(before(pick.Endpoints, ",") == a.At, "the picker to have named %s, which answered; it named %q", a.At,
			pick.Endpoints)
		d.why(model, pick.Strategy, comparison(pick))
	}
	busy := d.open(d.url, long("llama", "Count sheep", 200))
	d.line("")
	d.text("Now %s is busy with a long answer. Where would the next request go, and why?", busy.By)
	d.explain("--model", "llama")
	a := d.exchange("", question("llama", "And now?", 0), "llama-")
	expect(a.By != busy.By, "the idle server, got %s, which is busy", a.By)
	return []any{busy.By, a.By}
}

func streamed(d *show) []any {
	q := question("qwen", "One word at a time, and not one of them waits for the next", 0)
	q.Stream = true
	d.curl("", q)
	began := time.Now()
	answer := d.open(d.url, q)
	var at []time.Duration
	fmt.Fprintf(d.w, "     %s  ", d.column(answer.By))
	_, err := answer.read(func(text string) {
		at = append(at, time.Since(began))
		fmt.Fprint(d.w, text)
	})
	d.line("")
	check(err)
	checkStreamed(at)
	return []any{len(at), at[0].Milliseconds(), at[len(at)-1].Milliseconds()}
}

// checkStreamed fails unless chunks arrived one by one: the server pauses between them, so arrivals
// close together mean that the stream was buffered.
func checkStreamed(at []time.Duration) {
	expect(len(at) >= 2, "a stream of many chunks, got %d", len(at))
	spread, least := at[len(at)-1]-at[0], time.Duration(len(at)-1)*perToken/3
	expect(spread >= least, "the chunks one by one, over at least %s; got all %d within %s", least, len(at), spread)
}

// askEast sends a request that cluster east must answer. It also returns how many gateways the
// request passed, each of which adds an address to X-Forwarded-For, and the pick of east.
func (d *show) askEast() (a answer, passed int, east picker.Record) {
	began := d.waitRecordable()
	a = d.exchange(d.step.Prefix, question("llama", "Who are you?", 0), "east-llama-")
	forwarded := strings.Join(d.lastRequest(a.At).Headers.Values("X-Forwarded-For"), ",")
	return a, 1 + strings.Count(forwarded, ","), d.recorded("east", "default/llama", began)
}

func endpointMode(d *show) []any {
	began := time.Now()
	a, passed, east := d.askEast()
	here := d.recorded("here", "default/llama@east", began)
	expect(passed == 1, "the request to pass one gateway, the one here, got %d", passed)
	expect(here.Result == "relayed" && before(here.Endpoints, ",") == a.At && before(east.Endpoints, ",") == a.At,
		"both pickers to have named %s, which answered; got %q (%s) here and %q (%s) in east", a.At, here.Endpoints,
		here.Result, east.Endpoints, east.Result)
	d.why(a.By, a.At, here.Result)
	return []any{a.By}
}

func parentMode(d *show) []any {
	began := time.Now()
	a, passed, east := d.askEast()
	for _, pool := range []string{"default/llama", "default/llama@east"} {
		expect(len(d.picks("here", pool, began)) == 0, "no pick here, got a pick from %s", pool)
	}
	expect(passed == 2, "the request to pass two gateways, got %d", passed)
	expect(before(east.Endpoints, ",") == a.At, "east's picker to have named %s, which answered; it named %q", a.At,
		east.Endpoints)
	d.why(a.By, a.At)
	return []any{a.By}
}

// The number of requests of the split, and how far from half each side may be: five standard
// deviations, so that a correct split fails once in two million runs.
const (
	splitRequests = 200
	splitSlack    = 35
)

func split(d *show) []any {
	q := question("llama", "Hi", 1)
	d.text("%d times:", splitRequests)
	d.curl(d.step.Prefix, q)
	count, east := map[string]int{}, 0
	for range splitRequests {
		a := d.askFrom("", d.step.Prefix, q)
		if count[a.By]++; strings.HasPrefix(a.By, "east-") {
			east++
		}
	}
	for _, server := range servers {
		if server.model == "llama" {
			d.line("     %s %3d  %s", d.column(server.name), count[server.name], bar(count[server.name], 2))
		}
	}
	checkEven(splitRequests-east, east)
	d.why()
	return []any{splitRequests - east, splitRequests, east}
}

// checkEven fails unless the counts fit equal weights.
func checkEven(here, east int) {
	low := splitRequests/2 - splitSlack
	expect(here >= low && east >= low, "about half of %d on each side, at least %d; got %d here and %d in east",
		splitRequests, low, here, east)
}

// Requests of the spill step, and the limit in config/here/spill.yaml.
const (
	spillRequests = 10
	spillTokens   = 100 // of each answer: long enough that all are in flight together
	perServer     = 2   // full.inFlight
)

type spilled struct {
	answer
	pick picker.Record
}

func spill(d *show) []any {
	idle := func(verdicts []schedule.Verdict) bool {
		return !slices.ContainsFunc(verdicts, func(v schedule.Verdict) bool { return v.State.InFlight > 0 })
	}
	d.waitState("default/llama", idle)
	q := long("llama", "Count sheep", spillTokens)
	q.Stream = true
	d.text("%d times, without waiting for the end:", spillRequests)
	d.curl(d.step.Prefix, q)
	var all []spilled
	for n := range spillRequests {
		began := d.waitRecordable()
		answer := d.open(d.url+d.step.Prefix, q)
		r := spilled{answer.answer, d.recorded("here", "default/llama", began)}
		all = append(all, r)
		d.line("     %2d  %s  %s", n+1, d.column(r.By), d.paint(faint, r.reason()))
	}
	d.text("Where would the next one go?")
	d.explain()
	for i, answer := range d.opened {
		n, err := answer.read(ignore)
		expect(err == nil && n == spillTokens, "%d words of answer %d, got %d (%v)", spillTokens, i+1, n, err)
	}
	overflowed(all)
	d.waitState("default/llama", idle)
	d.text("All have ended. One more:")
	d.answer(d.askFrom("llama-", d.step.Prefix, question("llama", "Is there room again?", 0)))
	room := perServer * len(names("llama"))
	return []any{room, spillRequests - room}
}

func (r spilled) reason() string {
	var loads []string
	for _, v := range r.pick.Verdicts {
		loads = append(loads, fmt.Sprintf("%s %d/%d", before(v.Pod, "/"), v.State.InFlight, perServer))
	}
	if r.pick.Result == "spilled" {
		return "both full (" + strings.Join(loads, ", ") + "): to the import"
	}
	return "picked; now " + strings.Join(loads, ", ")
}

// overflowed fails unless the requests first filled the pool here, each server up to its limit, and
// then went to cluster east.
func overflowed(all []spilled) {
	local := names("llama")
	count, room := map[string]int{}, perServer*len(local)
	for i, r := range all {
		here, result := slices.Contains(local, r.By), "picked"
		if i >= room {
			result = "spilled"
		}
		expect(here == (i < room) && r.pick.Result == result && (!here || before(r.pick.Endpoints, ",") == r.At),
			"the first %d requests here and the others in cluster east; request %d was %q (%s) and went to %s at %s",
			room, i+1, r.pick.Result, r.pick.Endpoints, r.By, r.At)
		count[r.By]++
	}
	for _, name := range local {
		expect(count[name] == perServer, "%d requests at each server here, got %d at %s", perServer, count[name], name)
	}
}
