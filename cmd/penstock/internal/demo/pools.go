package demo

import (
	"fmt"
	"net/http"
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

// firstToken and perToken make a short answer fast, and a long one observable in flight.
const firstToken, perToken = 5 * time.Millisecond, 60 * time.Millisecond

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
			gated,
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

// waitRecordable waits because the picker records one pick of a pool every 20 ms at most.
func (d *show) waitRecordable() time.Time {
	d.pause(25 * time.Millisecond)
	return time.Now()
}

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

func checkStreamed(at []time.Duration) {
	expect(len(at) >= 2, "a stream of many chunks, got %d", len(at))
	spread, least := at[len(at)-1]-at[0], time.Duration(len(at)-1)*perToken/3
	expect(spread >= least, "the chunks one by one, over at least %s; got all %d within %s", least, len(at), spread)
}

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

// splitSlack is how far a side may be from half. It is five standard deviations: a correct split
// fails in one of two million runs.
const splitRequests, splitSlack = 200, 35

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

func checkEven(here, east int) {
	low := splitRequests/2 - splitSlack
	expect(here >= low && east >= low, "about half of %d on each side, at least %d; got %d here and %d in east",
		splitRequests, low, here, east)
}

const (
	spillRequests = 10
	spillTokens   = 100 // long enough for all answers to be in flight together
	perServer     = 2   // full.inFlight in config/here/spill.yaml
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

const (
	prefillRate = 1000 // in prompt tokens a second
	cacheTokens = 4096
	turns       = 6
	gemma       = "/prefix"
)

var adapters = []string{"sql", "french"}

func conversation(d *show) []any {
	q := question("gemma", "You are given a contract. "+strings.Repeat("The party of the first part agrees with the "+
		"party of the second part. ", 40)+"What is the first paragraph about?", 2)
	d.text("A question about a long contract, and then %d more about the same one:", turns)
	var home answer
	var later time.Duration
	for turn := range 1 + turns {
		a := d.askFrom("gemma-", d.step.Prefix, q)
		d.by(a.By, "%4d ms", a.Took.Milliseconds())
		if turn == 0 {
			home = a
		} else {
			later = max(later, a.Took)
		}
		expect(a.By == home.By, "every question at %s, which has the contract cached; question %d went to %s", home.By,
			turn+1, a.By)
		q.Messages = append(q.Messages, message{"assistant", a.Text},
			message{"user", fmt.Sprintf("And paragraph %d?", turn+2)})
	}
	expect(later <= home.Took*2/3, "answers sooner than the first, which took %d ms; one took %d ms",
		home.Took.Milliseconds(), later.Milliseconds())
	d.why(home.By)
	return []any{1 + turns, home.By, home.Took.Milliseconds(), later.Milliseconds()}
}

func adapter(d *show) []any {
	homes := map[string]string{}
	d.text("One request for each, by which the picker learns that these models are adapters, and then three more " +
		"that are in flight at the same time:")
	d.curl(gemma, adapterTask(0, adapters[0]))
	for round := range 4 {
		for _, name := range adapters {
			answer := d.open(d.url+gemma, adapterTask(round, name))
			if round <= 1 {
				homes[name] = answer.By
				d.waitState("default/gemma", func(verdicts []schedule.Verdict) bool {
					return slices.ContainsFunc(verdicts, func(v schedule.Verdict) bool {
						return before(v.Pod, "/") == answer.By && v.State.Adapters.Has(name)
					})
				})
			}
			if round == 0 {
				_ = must(answer.read(ignore))
				continue
			}
			d.by(answer.By, "%s", d.paint(faint, "model "+name))
			expect(answer.By == homes[name], "adapter %s to stay at %s, where it is active; a request went to %s", name,
				homes[name], answer.By)
		}
	}
	one, other := homes[adapters[0]], homes[adapters[1]]
	expect(one != other, "the adapters at different servers, each of which has room for one; both are at %s", one)
	d.why()
	return []any{adapters[0], one, adapters[1], other}
}

func adapterTask(round int, name string) chat {
	return long(name, fmt.Sprintf("Task %d of adapter %s", round, name), []int{40, 100, 100, 100}[round])
}

func overload(d *show) []any {
	d.text("Other clients ask the servers directly, for answers so long that each fills a KV cache:")
	for _, name := range names("gemma") {
		server := "http://" + d.address(name)
		d.by(name, "%s", d.paint(faint, server+completions))
		d.open(server, long("gemma", "Count all the sheep", cacheTokens*85/100))
	}
	q := question("gemma", "Summarise this when there is time", 2)
	d.text("Now a request that can wait, and one that cannot:")
	d.curl(d.step.Prefix, q)
	var shed answer
	check(wait(d.ctx, func() bool {
		shed = d.ask(d.ctx, d.url+d.step.Prefix, q)
		return shed.Status != http.StatusOK
	}))
	expect(shed.Status == http.StatusTooManyRequests && strings.Contains(shed.Text, `"shed"`),
		"429 with the code shed, got %d: %s", shed.Status, shed.Text)
	d.line("     %d  %s", shed.Status, d.paint(faint, strings.TrimSpace(shed.Text)))
	d.exchange(gemma, q, "gemma-")
	return nil
}

func prepared(d *show) []any {
	q := question("qwen", "Once there was a fox that jumped over a lazy dog each day, and a dog that slept through "+
		"all of it, and dreamt of foxes. Who jumped?", 2)
	yes, no := true, false
	home := ""
	for _, part := range []struct {
		prefix, text string
		route        *bool
		from         string
	}{
		{"/stored", "Phase 1: the token IDs travel through the store, and the header has their key. The request asks " +
			"for the router:", &yes, "store"},
		{"/sent", "Phase 2: the token IDs travel in the body. The policy asks for the router:", nil, "body"},
		{"/sent", "The same without the router, because the request prefers the picker's own choice:", &no, "body"},
	} {
		d.text("%s", part.text)
		q.Route = part.route
		d.curl(part.prefix, q)
		for range 3 {
			a := d.askFrom("qwen-", part.prefix, q)
			d.by(a.By, "%s", d.paint(faint, "token IDs from the "+a.TokenIDs))
			expect(a.TokenIDs == part.from, "the server to have its token IDs from the %s; it has them from the %s",
				part.from, a.TokenIDs)
			if q.Route != &no {
				expect(home == "" || a.By == home,
					"the router to choose %s, which was sent the same prompt; it chose %s", home, a.By)
				home = a.By
			}
		}
		if q.Route != &no {
			d.line("     %s", d.paint(faint, "it received "+d.received(home)))
		}
	}
	d.why()
	return []any{home}
}

func (d *show) received(server string) string {
	last := d.lastRequest(d.address(server))
	if key := last.Headers.Get(modelserver.TokensKeyHeader); key != "" {
		return modelserver.TokensKeyHeader + ": " + key
	}
	return last.Body[:min(len(last.Body), 48)] + " ..."
}

func gated(d *show) []any {
	keys := map[string]string{}
	for _, c := range []struct {
		caller, model string
		status        int
	}{{"", "llama", 401}, {"alice", "llama", 200}, {"bob", "qwen", 200}, {"bob", "llama", 403}} {
		q := question(c.model, "Hello", 0)
		if q.keyIn = strings.ToUpper(c.caller); q.keyIn != "" && keys[c.caller] == "" {
			args := []string{"keys", "create", c.caller, "--model", c.model, "-f", d.file("here")}
			d.command(fmt.Sprintf("%s=$(%s %s)", q.keyIn, d.cfg.Typed, strings.Join(args, " ")))
			keys[c.caller] = strings.TrimSpace(string(must(d.penstock(d.ctx, args...).Output())))
		}
		q.key = keys[c.caller]
		d.curl(d.step.Prefix, q)
		var a answer
		// A new key works once its file is read. A busy authorization service answers 503.
		check(wait(d.ctx, func() bool {
			a = d.ask(d.ctx, d.url+d.step.Prefix, q)
			return a.Status == c.status ||
				a.Status != http.StatusUnauthorized && a.Status != http.StatusServiceUnavailable
		}))
		d.by(a.By, "%d %s", a.Status, strings.TrimSpace(a.Text))
		expect(a.Status == c.status, "%d, got %d", c.status, a.Status)
	}
	args := []string{"usage", "--by", "owner,model", "--state"}
	d.command(fmt.Sprintf("%s %s $STATE", d.cfg.Typed, strings.Join(args, " ")))
	table := string(must(d.penstock(d.ctx, append(args, d.state("here"))...).Output()))
	d.output(table)
	expect(strings.Contains(table, "/alice ") && strings.Contains(table, "/bob "), "both owners in this table")
	return nil
}
