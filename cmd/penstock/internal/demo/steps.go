package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// step is one feature that the demo shows.
type step struct {
	title string
	intro string // what the step shows
	file  string // its YAML, below config/; may be ""
	// prefix is the path of the file's route. If set, the file is applied when the step begins.
	prefix string
	// run runs the step and prints what happens. It returns the observed result, as a sentence, or
	// an error with what was expected instead.
	run func(ctx context.Context, s *stage, p *page, prefix string) (result string, err error)
}

func allSteps() []step {
	return []step{
		{
			title: "Two pools behind one gateway",
			intro: "The gateway reads the model's name in the body, and its route chooses the pool. In the pool, the " +
				"picker chooses the server with the least load.",
			file: "here/pools.yaml", run: twoPools,
		},
		{
			title: "A streamed answer",
			intro: "The same, word by word as the server generates it. Nothing on the path buffers it.",
			run:   streamed,
		},
		{
			title: "A pool of another cluster, in EndpointMode",
			intro: "Cluster east has a pool, too. The gateway here asks east's picker, and sends the request " +
				"directly to the server that it names.",
			file: "here/endpoint-mode.yaml", prefix: "/endpoint-mode", run: endpointMode,
		},
		{
			title: "The same pool, in ParentMode",
			intro: "If the servers of another cluster can't be reached directly, its gateway can: the request passes " +
				"two gateways, and the second one picks.",
			file: "here/parent-mode.yaml", prefix: "/parent-mode", run: parentMode,
		},
		{
			title: "Half here, half there",
			intro: "A route with two backends: the pool here and the imported one, with equal weights. The demo " +
				"counts each server's answers.",
			file: "here/split.yaml", prefix: "/split", run: split,
		},
		{
			title: "When the pool here is full",
			intro: "A policy defines when a server is full, and where requests go then. The demo requests more long " +
				"answers than fit; all are in flight at the same time.",
			file: "here/spill.yaml", prefix: "/spill", run: spill,
		},
		{
			title: "A conversation finds its prompt",
			intro: "A server that has read the beginning of a prompt need not read it again. These two servers read " +
				"1,000 words a second, and keep what they have read.",
			file: "here/prefix.yaml", prefix: "/prefix", run: conversation,
		},
		{
			title: "LoRA adapters stay where they are active",
			intro: "The same two servers have the adapters sql and french, and room for one of them at a time.",
			run:   adapter,
		},
		{
			title: "Overload: what can wait gives way",
			intro: "A second pool has the same servers, and its requests are sheddable. When both servers' KV caches " +
				"are nearly full, they get 429 at once, and the rest is left to others.",
			file: "here/overload.yaml", prefix: "/batch", run: overload,
		},
		{
			title: "A processor and a router of one's own",
			intro: "Two pools have a processor outside of Penstock, as the Dynamo proposal describes it: it " +
				"tokenizes each prompt before the pick, and may have its router choose the server.",
			file: "here/processor.yaml", prefix: stored, run: prepared,
		},
	}
}

// twoPools sends a request for each model. Then it keeps one server busy and checks that the picker
// avoids it.
func twoPools(ctx context.Context, s *stage, p *page, prefix string) (string, error) {
	for _, model := range []string{"llama", "qwen"} {
		q := question(model, "Hello there")
		p.curl(prefix, q)
		began := time.Now()
		a, err := s.ask(ctx, s.here.url+prefix, q)
		if err != nil {
			return "", err
		}
		p.answer(a)
		if err := a.expectFrom(model + "-"); err != nil {
			return "", err
		}
		pick, err := s.recorded(ctx, s.here, "default/"+model, began)
		if err != nil {
			return "", err
		}
		if first(pick.Endpoints) != a.At {
			return "",
				fmt.Errorf("expected the picker to have named %s, which answered; it named %q", a.At, pick.Endpoints)
		}
		p.why("the route sends model %s to pool %s; there, strategy %q %s", model, model, pick.Strategy,
			comparison(pick))
	}
	long := question("llama", "Count sheep")
	long.MaxTokens, long.IgnoreEOS = 200, true
	busy, err := s.open(ctx, s.here.url+prefix, long)
	if err != nil {
		return "", err
	}
	defer busy.close()
	p.gap()
	p.text(fmt.Sprintf("Now %s is busy with a long answer. Where would the next request go, and why?", busy.By))
	if err := s.explain(ctx, p, prefix, "--model", "llama"); err != nil {
		return "", err
	}
	q := question("llama", "And now?")
	p.curl(prefix, q)
	a, err := s.ask(ctx, s.here.url+prefix, q)
	if err != nil {
		return "", err
	}
	p.answer(a)
	if err := a.expectFrom("llama-"); err != nil {
		return "", err
	}
	if a.By == busy.By {
		return "", fmt.Errorf("expected the idle server, got %s, which is busy", a.By)
	}
	return fmt.Sprintf("each model was answered from its own pool; while %s was busy, %s answered", busy.By, a.By), nil
}

func streamed(ctx context.Context, s *stage, p *page, prefix string) (string, error) {
	q := question("qwen", "One word at a time, and not one of them waits for the next")
	q.Stream = true
	p.curl(prefix, q)
	began := time.Now()
	answer, err := s.open(ctx, s.here.url+prefix, q)
	if err != nil {
		return "", err
	}
	defer answer.close()
	var at []time.Duration
	p.part("     " + p.column(answer.By) + "  ")
	for {
		text, err := answer.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			p.gap()
			return "", err
		}
		at = append(at, time.Since(began))
		p.part(text)
	}
	p.gap()
	if err := checkStreamed(at); err != nil {
		return "", err
	}
	return fmt.Sprintf("%d chunks: the first after %d ms, the last after %d ms", len(at), at[0].Milliseconds(),
		at[len(at)-1].Milliseconds()), nil
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

// endpointMode checks that east's picker names the server and that the request passes only the
// gateway here.
func endpointMode(ctx context.Context, s *stage, p *page, prefix string) (string, error) {
	began := time.Now()
	a, passed, err := s.askEast(ctx, p, prefix)
	if err != nil {
		return "", err
	}
	here, err := s.recorded(ctx, s.here, "default/llama@east", began)
	if err != nil {
		return "", err
	}
	east, err := s.recorded(ctx, s.east, "default/llama", began)
	if err != nil {
		return "", err
	}
	if passed != 1 {
		return "", fmt.Errorf("expected the request to pass one gateway, the one here, got %d", passed)
	}
	if here.Result != "relayed" || first(here.Endpoints) != a.At || first(east.Endpoints) != a.At {
		return "",
			fmt.Errorf("expected both pickers to have named %s, which answered; got %q (%s) here and %q (%s) in east",
				a.At, here.Endpoints, here.Result, east.Endpoints, east.Result)
	}
	p.why(
		"east's picker named %s, and the picker here returned that endpoint (%q). By its X-Forwarded-For, the "+
			"request passed one gateway.", s.serverAt(a.At), here.Result)
	return fmt.Sprintf("%s of cluster east was chosen by east's picker and reached from here", a.By), nil
}

// parentMode checks that only east's picker picks and that the request passes both gateways.
func parentMode(ctx context.Context, s *stage, p *page, prefix string) (string, error) {
	began := time.Now()
	a, passed, err := s.askEast(ctx, p, prefix)
	if err != nil {
		return "", err
	}
	east, err := s.recorded(ctx, s.east, "default/llama", began)
	if err != nil {
		return "", err
	}
	for _, pool := range []string{"default/llama", "default/llama@east"} {
		picks, err := s.picks(ctx, s.here, pool)
		if err != nil {
			return "", err
		}
		if len(picks) > 0 && picks[0].Time.After(began) {
			return "", fmt.Errorf("expected no pick here, got a pick from %s: %s", pool, picks[0].Endpoints)
		}
	}
	if passed != 2 {
		return "", fmt.Errorf("expected the request to pass two gateways, got %d", passed)
	}
	if first(east.Endpoints) != a.At {
		return "",
			fmt.Errorf("expected east's picker to have named %s, which answered; it named %q", a.At, east.Endpoints)
	}
	p.why(
		"the picker here was not asked; east's gateway asked its own picker, which named %s. By its X-Forwarded-For, "+
			"the request passed two gateways.", s.serverAt(a.At))
	return fmt.Sprintf("%s of cluster east answered through east's gateway", a.By), nil
}

// askEast sends a request that cluster east must answer, and returns how many gateways it passed.
func (s *stage) askEast(ctx context.Context, p *page, prefix string) (a answer, passed int, err error) {
	q := question("llama", "Who are you?")
	p.curl(prefix, q)
	if err := waitRecordable(ctx); err != nil {
		return a, 0, err
	}
	if a, err = s.ask(ctx, s.here.url+prefix, q); err != nil {
		return a, 0, err
	}
	p.answer(a)
	if err := a.expectFrom("east-llama-"); err != nil {
		return a, 0, err
	}
	passed, err = s.gateways(ctx, a.At)
	return a, passed, err
}

// expectFrom returns an error unless an answer succeeded and is from a server whose name begins
// with prefix.
func (a answer) expectFrom(prefix string) error {
	if a.Status != 200 || !strings.HasPrefix(a.By, prefix) {
		return fmt.Errorf("expected 200 from one of %s*, got %d from %q: %s", prefix, a.Status, a.By, a.Text)
	}
	return nil
}

// The number of requests of the split, and how far from half each side may be: five standard
// deviations, so that a correct split fails once in two million runs.
const (
	splitRequests = 200
	splitSlack    = 35
)

func split(ctx context.Context, s *stage, p *page, prefix string) (string, error) {
	q := question("llama", "Hi")
	q.MaxTokens = 1
	p.text(fmt.Sprintf("%d times:", splitRequests))
	p.curl(prefix, q)
	count := map[string]int{}
	for range splitRequests {
		a, err := s.ask(ctx, s.here.url+prefix, q)
		if err != nil {
			return "", err
		}
		if a.Status != 200 {
			return "", fmt.Errorf("expected 200 every time, got %d: %s", a.Status, a.Text)
		}
		count[a.By]++
	}
	for _, server := range servers {
		if server.model == "llama" {
			p.line("     %s %3d  %s", p.column(server.name), count[server.name], bar(count[server.name], 2))
		}
	}
	here, east := shares(count)
	if err := checkEven(here, east); err != nil {
		return "", err
	}
	p.why(
		"for each request, Envoy chooses one of the two backends by weight, and then asks that backend's own picker: " +
			"the one here, or east's.")
	return fmt.Sprintf("%d of %d were answered here, %d in cluster east", here, splitRequests, east), nil
}

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

func names(model string) []string {
	var out []string
	for _, server := range servers {
		if server.model == model && !strings.HasPrefix(server.name, "east-") {
			out = append(out, server.name)
		}
	}
	return out
}
