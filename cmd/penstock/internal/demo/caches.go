package demo

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/penstock-project/penstock/picker/external"
	"github.com/penstock-project/penstock/picker/external/preprocess"
	"github.com/penstock-project/penstock/picker/external/router"
	"github.com/penstock-project/penstock/picker/modelserver"
	"github.com/penstock-project/penstock/picker/schedule"
)

// The servers of pool gemma cache prompts, and one of two adapters can be active at a time.
const (
	prefillRate = 1000 // tokens of a prompt that are read in a second
	cacheTokens = 4096
	turns       = 6         // of a conversation after its first
	gemma       = "/prefix" // the path of the pool's route
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
				// until the picker has read on the server's page that the adapter is active there
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

// adapterTask is a request for an adapter. The first one is short, but long enough for a page to
// show it: pages are read each second.
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
	check(wait(d.ctx, func() bool { // the next page that the picker reads has the cache
		shed = d.ask(d.ctx, d.url+d.step.Prefix, q)
		return shed.Status != http.StatusOK
	}))
	var body struct {
		Error struct{ Code, Message string }
	}
	err := json.Unmarshal([]byte(shed.Text), &body)
	expect(err == nil && shed.Status == http.StatusTooManyRequests && body.Error.Code == "shed",
		"429 with the code shed, got %d: %s", shed.Status, shed.Text)
	d.line("     %d  %s", shed.Status, d.paint(faint, body.Error.Message))
	d.exchange(gemma, q, "gemma-")
	return nil
}

// external serves the paths of a part of penstock-external at a port of this name, and returns its
// URL.
func (d *show) external(name string, cfg external.ServerConfig, paths func(*external.Server)) string {
	cfg.Listen, cfg.Grace, cfg.Log = "127.0.0.1:0", time.Second, slog.New(slog.DiscardHandler)
	server := external.NewServer(cfg)
	paths(server)
	d.ports[name] = portOf(must(server.Open()))
	d.group.Go(func() error { return server.Run(d.ctx) })
	return "http://" + d.address(name)
}

func (d *show) processors(tokens string) {
	var workers []string
	for _, name := range names("qwen") {
		workers = append(workers, d.address(name))
	}
	quiet := slog.New(slog.DiscardHandler)
	routes := must(router.New(router.Config{Workers: workers, Log: quiet}, prometheus.NewRegistry()))
	routerURL := d.external("router", router.ServerConfig(), routes.Paths)
	for name, store := range map[string]string{"stores-tokens": tokens, "sends-tokens": ""} {
		p := must(preprocess.New(preprocess.Config{
			Tokenize: bytesAsTokens, Router: routerURL, Tokens: store, Log: quiet,
		}, prometheus.NewRegistry()))
		d.external(name, preprocess.ServerConfig(), p.Paths)
	}
}

func bytesAsTokens(text string) ([]uint32, error) {
	out := make([]uint32, len(text))
	for i := range text {
		out[i] = uint32(text[i])
	}
	return out, nil
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
