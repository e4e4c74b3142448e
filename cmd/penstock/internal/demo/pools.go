package demo

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/penstock-project/penstock/cmd/internal/external/tokenstore"
	"github.com/penstock-project/penstock/cmd/penstock/internal/app"
	"github.com/penstock-project/penstock/picker"
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

// names returns the servers here that have a model.
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
		steps: []func(*show, string) string{
			twoPools, streamed, endpointMode, parentMode, split, spill, conversation, adapter, overload, prepared,
		},
	}
}

func preparePools(d *show) {
	store := tokenstore.New(tokenstore.Config{}, prometheus.NewRegistry())
	tokens := "http://" + d.external(tokenstore.ServerConfig(), store.Paths)
	client := must(tokenstore.NewClient(tokens, time.Second))
	for _, server := range servers {
		c := modelserver.Config{Model: server.model, TimeToFirstToken: firstToken, InterTokenLatency: perToken}
		switch server.model {
		case "gemma":
			c.PrefixCaching, c.PrefillRate, c.KVCacheTokens, c.LoRAs = true, prefillRate, cacheTokens, adapters
		case "qwen":
			c.Tokens = client
		}
		d.model(server.name, c)
	}
	d.processors(tokens)
}

func beginPools(d *show) {
	d.line("   here  %s   pool llama: %s %s   pool qwen: %s %s   pool gemma: %s %s", d.url, d.server("llama-1"),
		d.server("llama-2"), d.server("qwen-1"), d.server("qwen-2"), d.server("gemma-1"), d.server("gemma-2"))
	d.line("   east  %s   pool llama: %s %s", d.clusters["east"].url(), d.server("east-llama-1"),
		d.server("east-llama-2"))
	d.line("")
	d.command(d.fill("GW=@url   STATE=@state"))
}

// explain runs penstock explain and shows the part about the backends: their pickers, and the state
// of each endpoint.
func (d *show) explain(prefix string, more ...string) {
	args := append([]string{"-X", "POST"}, more...)
	d.command(fmt.Sprintf("%s explain $GW%s \\\n       %s --state $STATE", d.cfg.Typed, prefix+completions,
		strings.Join(args, " ")))
	args = append([]string{"explain", d.url + prefix + completions, "--state", d.state("here")}, args...)
	shown := ""
	for line := range strings.Lines(string(must(d.penstock(d.ctx, args...).Output()))) {
		if word, _, _ := strings.Cut(line, " "); word == "" || word == "backend" || word == "route" {
			shown += line
		}
	}
	d.output(shown)
}

// waitState waits until the endpoints of a pool are in some state, by the picker here.
func (d *show) waitState(prefix, pool string, reached func([]schedule.Verdict) bool) {
	page := "/explain?method=POST&url=" + url.QueryEscape(d.url+prefix+completions)
	check(wait(d.ctx, func() bool {
		var e app.Explained
		check(d.cfg.Ask(d.ctx, d.state("here"), page, &e))
		var now picker.Explanation
		check(json.Unmarshal(e.Picks[pool], &now))
		return reached(now.Verdicts)
	}))
}

// twoPools sends a request for each model, and then keeps one server busy and checks that the
// picker avoids it.
func twoPools(d *show, prefix string) string {
	for _, model := range []string{"llama", "qwen"} {
		began := time.Now()
		a := d.exchange(prefix, question(model, "Hello there"), model+"-")
		pick := d.recorded("here", "default/"+model, began)
		expect(first(pick.Endpoints) == a.At, "the picker to have named %s, which answered; it named %q", a.At,
			pick.Endpoints)
		d.why("the route sends model %s to pool %s; there, strategy %q %s", model, model, pick.Strategy,
			comparison(pick))
	}
	busy := d.open(d.url+prefix, long("llama", "Count sheep", 200))
	d.line("")
	d.text(fmt.Sprintf("Now %s is busy with a long answer. Where would the next request go, and why?", busy.By))
	d.explain(prefix, "--model", "llama")
	a := d.exchange(prefix, question("llama", "And now?"), "llama-")
	expect(a.By != busy.By, "the idle server, got %s, which is busy", a.By)
	return fmt.Sprintf("each model was answered from its own pool; while %s was busy, %s answered", busy.By, a.By)
}

// streamed shows a streamed answer while it arrives.
func streamed(d *show, prefix string) string {
	q := question("qwen", "One word at a time, and not one of them waits for the next")
	q.Stream = true
	d.curl(prefix, q)
	began := time.Now()
	answer := d.open(d.url+prefix, q)
	var at []time.Duration
	fmt.Fprintf(d.w, "     %s  ", d.column(answer.By))
	text, err := answer.next()
	for ; err == nil; text, err = answer.next() {
		at = append(at, time.Since(began))
		fmt.Fprint(d.w, text)
	}
	d.line("")
	if !errors.Is(err, io.EOF) {
		check(err)
	}
	check(checkStreamed(at))
	return fmt.Sprintf("%d chunks: the first after %d ms, the last after %d ms", len(at), at[0].Milliseconds(),
		at[len(at)-1].Milliseconds())
}

// checkStreamed returns an error unless chunks arrived one by one: the server pauses between them,
// so arrivals close together mean that the stream was buffered.
func checkStreamed(at []time.Duration) error {
	if len(at) < 2 {
		return fmt.Errorf("expected a stream of many chunks, got %d", len(at))
	}
	spread, least := at[len(at)-1]-at[0], time.Duration(len(at)-1)*perToken/3
	if spread < least {
		return fmt.Errorf("expected the chunks one by one, over at least %s; got all %d within %s", least, len(at),
			spread)
	}
	return nil
}

// askEast sends a request that cluster east must answer. It also returns how many gateways the
// request passed, each of which adds an address to X-Forwarded-For, and the pick of east.
func (d *show) askEast(prefix string) (a answer, passed int, east picker.Record) {
	d.waitRecordable()
	began := time.Now()
	a = d.exchange(prefix, question("llama", "Who are you?"), "east-llama-")
	forwarded := strings.Join(d.lastRequest(a.At).Headers.Values("X-Forwarded-For"), ",")
	return a, len(strings.Split(forwarded, ",")), d.recorded("east", "default/llama", began)
}

// endpointMode checks that east's picker names the server and that the request passes only the
// gateway here.
func endpointMode(d *show, prefix string) string {
	began := time.Now()
	a, passed, east := d.askEast(prefix)
	here := d.recorded("here", "default/llama@east", began)
	expect(passed == 1, "the request to pass one gateway, the one here, got %d", passed)
	expect(here.Result == "relayed" && first(here.Endpoints) == a.At && first(east.Endpoints) == a.At,
		"both pickers to have named %s, which answered; got %q (%s) here and %q (%s) in east", a.At, here.Endpoints,
		here.Result, east.Endpoints, east.Result)
	d.why("east's picker named %s, and the picker here returned that endpoint (%q). By its X-Forwarded-For, the "+
		"request passed one gateway.", fmt.Sprintf("%s (%s)", a.By, a.At), here.Result)
	return fmt.Sprintf("%s of cluster east was chosen by east's picker and reached from here", a.By)
}

// parentMode checks that only east's picker picks and that the request passes both gateways.
func parentMode(d *show, prefix string) string {
	began := time.Now()
	a, passed, east := d.askEast(prefix)
	for _, pool := range []string{"default/llama", "default/llama@east"} {
		picks := d.picks("here", pool)
		expect(len(picks) == 0 || !picks[0].Time.After(began), "no pick here, got a pick from %s", pool)
	}
	expect(passed == 2, "the request to pass two gateways, got %d", passed)
	expect(first(east.Endpoints) == a.At, "east's picker to have named %s, which answered; it named %q", a.At,
		east.Endpoints)
	d.why("the picker here was not asked; east's gateway asked its own picker, which named %s. By its "+
		"X-Forwarded-For, the request passed two gateways.", fmt.Sprintf("%s (%s)", a.By, a.At))
	return fmt.Sprintf("%s of cluster east answered through east's gateway", a.By)
}

// The number of requests of the split, and how far from half each side may be: five standard
// deviations, so that a correct split fails once in two million runs.
const (
	splitRequests = 200
	splitSlack    = 35
)

// split counts each server's answers.
func split(d *show, prefix string) string {
	q := question("llama", "Hi")
	q.MaxTokens = 1
	d.text(fmt.Sprintf("%d times:", splitRequests))
	d.curl(prefix, q)
	count := map[string]int{}
	for range splitRequests {
		a := must(d.ask(d.ctx, d.url+prefix, q))
		expect(a.Status == http.StatusOK, "200 every time, got %d: %s", a.Status, a.Text)
		count[a.By]++
	}
	for _, server := range servers {
		if server.model == "llama" {
			d.line("     %s %3d  %s", d.column(server.name), count[server.name], bar(count[server.name], 2))
		}
	}
	here, east := shares(count)
	check(checkEven(here, east))
	d.why("for each request, Envoy chooses one of the two backends by weight, and then asks that backend's own " +
		"picker: the one here, or east's.")
	return fmt.Sprintf("%d of %d were answered here, %d in cluster east", here, splitRequests, east)
}

// shares returns how many requests each cluster answered.
func shares(count map[string]int) (here, east int) {
	for name, n := range count {
		if strings.HasPrefix(name, "east-") {
			east += n
		} else {
			here += n
		}
	}
	return here, east
}

// checkEven returns an error unless the counts fit equal weights.
func checkEven(here, east int) error {
	if low := splitRequests/2 - splitSlack; here+east != splitRequests || here < low || east < low {
		return fmt.Errorf("expected about half of %d on each side, at least %d; got %d here and %d in east",
			splitRequests, low, here, east)
	}
	return nil
}

// Requests of the spill step, and the limit in config/here/spill.yaml.
const (
	spillRequests = 10
	spillTokens   = 100 // of each answer: long enough that all are in flight together
	perServer     = 2   // full.inFlight
)

// spilled is one of the requests and the picker's decision.
type spilled struct {
	by, at string
	pick   picker.Record
}

// spill fills the pool here with long answers, and checks that further requests go to cluster east.
// After all have ended, it checks that the pool takes requests again.
func spill(d *show, prefix string) string {
	idle := func(verdicts []schedule.Verdict) bool {
		return !slices.ContainsFunc(verdicts, func(v schedule.Verdict) bool { return v.State.InFlight > 0 })
	}
	d.waitState(prefix, "default/llama", idle)
	q := long("llama", "Count sheep", spillTokens)
	q.Stream = true
	d.text(fmt.Sprintf("%d times, without waiting for the end:", spillRequests))
	d.curl(prefix, q)
	var all []spilled
	for n := range spillRequests {
		d.waitRecordable()
		began := time.Now()
		answer := d.open(d.url+prefix, q)
		r := spilled{answer.By, answer.At, d.recorded("here", "default/llama", began)}
		all = append(all, r)
		d.line("     %2d  %s  %s", n+1, d.column(r.by), d.paint(faint, r.reason()))
	}
	d.text("Where would the next one go?")
	d.explain(prefix)
	for i, answer := range d.opened {
		n, err := answer.rest()
		expect(err == nil && n == spillTokens, "%d words of answer %d, got %d (%v)", spillTokens, i+1, n, err)
	}
	check(overflowed(all))
	d.waitState(prefix, "default/llama", idle)
	d.text("All have ended. One more:")
	a := must(d.ask(d.ctx, d.url+prefix, question("llama", "Is there room again?")))
	d.answer(a)
	check(a.expectFrom("llama-"))
	room := perServer * len(names("llama"))
	return fmt.Sprintf(
		"%d ran here, %d were spilled to cluster east within the same request, and no client got an error",
		room, spillRequests-room)
}

// reason describes the picker's decision from its record.
func (r spilled) reason() string {
	var loads []string
	for _, v := range r.pick.Verdicts {
		loads = append(loads, fmt.Sprintf("%s %d/%d", podName(v.Pod), v.State.InFlight, perServer))
	}
	if r.pick.Result == "spilled" {
		return "both full (" + strings.Join(loads, ", ") + "): to the import"
	}
	return "picked; now " + strings.Join(loads, ", ")
}

// overflowed returns an error unless the requests first filled the pool here, each server up to its
// limit, and then went to cluster east.
func overflowed(all []spilled) error {
	local := names("llama")
	room := perServer * len(local)
	count := map[string]int{}
	for i, r := range all {
		want := "picked"
		if i >= room {
			want = "spilled"
		}
		isLocal := slices.Contains(local, r.by)
		if isLocal != (i < room) || r.pick.Result != want || isLocal && first(r.pick.Endpoints) != r.at {
			return fmt.Errorf("expected the first %d requests here and the others in cluster east; request %d was %q "+
				"(%s) and went to %s at %s", room, i+1, r.pick.Result, r.pick.Endpoints, r.by, r.at)
		}
		count[r.by]++
	}
	for _, name := range local {
		if count[name] != perServer {
			return fmt.Errorf("expected %d requests at each server here, got %d at %s", perServer, count[name], name)
		}
	}
	return nil
}
