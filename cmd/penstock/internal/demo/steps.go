package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/penstock-project/penstock/picker"
)

// step is one thing that the demo shows.
type step struct {
	title string
	story string // what is about to be seen
	file  string // the YAML that makes it so, below config/; "" for nothing new
	// prefix is the path of the file's route. If there is one, the file is dropped into the folder when the step begins.
	prefix string
	// run does it and shows it. It returns what was seen, in a sentence, or an error that says what was expected instead.
	run func(ctx context.Context, s *stage, p *page, prefix string) (seen string, err error)
}

// story is what the demo shows, in order.
func story() []step {
	return []step{
		{
			title: "Two pools behind one gateway",
			story: "The gateway reads the model's name in the body, and its route chooses the pool. In the pool, the picker chooses the server with the least to do.",
			file:  "here/pools.yaml", run: twoPools,
		},
		{
			title: "A streamed answer",
			story: "The same, word by word as the server says it. Nothing on the way holds it back.",
			run:   streamed,
		},
		{
			title: "A pool of another cluster, in EndpointMode",
			story: "Cluster east has a pool, too. The gateway here asks east's picker, and sends the request straight to the server that it names.",
			file:  "here/endpoint-mode.yaml", prefix: "/endpoint-mode", run: endpointMode,
		},
		{
			title: "The same pool, in ParentMode",
			story: "Where the servers of another cluster cannot be reached, its gateway can: the request passes two gateways, and the second one picks.",
			file:  "here/parent-mode.yaml", prefix: "/parent-mode", run: parentMode,
		},
		{
			title: "Half here, half there",
			story: "A route with two backends: the pool here and the imported one, with equal weights. Who answers is counted.",
			file:  "here/split.yaml", prefix: "/split", run: split,
		},
		{
			title: "When the pool here is full",
			story: "A policy says when a server is full, and where requests go then. More long answers are asked for than fit; all are under way at the same time.",
			file:  "here/spill.yaml", prefix: "/spill", run: spill,
		},
	}
}

// twoPools asks for each model, and then keeps one server busy to see the picker avoid it.
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
		if err := a.from(model + "-"); err != nil {
			return "", err
		}
		pick, err := s.recorded(ctx, s.here, "default/"+model, began)
		if err != nil {
			return "", err
		}
		if first(pick.Endpoints) != a.At {
			return "", fmt.Errorf("expected the picker to have named %s, which answered; it named %q", a.At, pick.Endpoints)
		}
		p.why("the route takes model %s to pool %s; there, strategy %q %s", model, model, pick.Strategy, comparison(pick))
	}
	long := question("llama", "Count sheep")
	long.MaxTokens, long.IgnoreEOS = 200, true
	busy, err := s.open(ctx, s.here.url+prefix, long)
	if err != nil {
		return "", err
	}
	defer busy.close()
	p.gap()
	p.say(fmt.Sprintf("Now %s is busy with a long answer. Where would the next request go, and why?", busy.By))
	if err := s.explain(ctx, p, prefix, "X-Gateway-Model-Name: llama"); err != nil {
		return "", err
	}
	q := question("llama", "And now?")
	p.curl(prefix, q)
	a, err := s.ask(ctx, s.here.url+prefix, q)
	if err != nil {
		return "", err
	}
	p.answer(a)
	if err := a.from("llama-"); err != nil {
		return "", err
	}
	if a.By == busy.By {
		return "", fmt.Errorf("expected the server that is not busy, got %s, which is", a.By)
	}
	return fmt.Sprintf("each model was answered from its own pool; while %s was busy, %s answered", busy.By, a.By), nil
}

// streamed shows a streamed answer while it comes.
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
	if err := flowed(at); err != nil {
		return "", err
	}
	return fmt.Sprintf("%d pieces: the first after %d ms, the last after %d ms", len(at), at[0].Milliseconds(), at[len(at)-1].Milliseconds()), nil
}

// flowed tells whether pieces came one by one: a server that pauses between them was not held back until the end.
func flowed(at []time.Duration) error {
	if len(at) < 2 {
		return fmt.Errorf("expected a stream of many pieces, got %d", len(at))
	}
	spread, least := at[len(at)-1]-at[0], time.Duration(len(at)-1)*perToken/3
	if spread < least {
		return fmt.Errorf("expected the pieces one by one, over %s at least; got all %d within %s", least, len(at), spread)
	}
	return nil
}

func endpointMode(ctx context.Context, s *stage, p *page, prefix string) (string, error) {
	began := time.Now()
	a, passed, err := s.abroad(ctx, p, prefix)
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
		return "", fmt.Errorf("expected both pickers to have named %s, which answered; got %q (%s) here and %q (%s) in east", a.At, here.Endpoints, here.Result, east.Endpoints, east.Result)
	}
	p.why("east's picker named %s, and the picker here passed that on (%q). By its X-Forwarded-For, the request passed one gateway.", s.serverAt(a.At), here.Result)
	return fmt.Sprintf("%s of cluster east was chosen by east's picker and reached from here", a.By), nil
}

func parentMode(ctx context.Context, s *stage, p *page, prefix string) (string, error) {
	began := time.Now()
	a, passed, err := s.abroad(ctx, p, prefix)
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
			return "", fmt.Errorf("expected that nothing is picked here, got a pick from %s: %s", pool, picks[0].Endpoints)
		}
	}
	if passed != 2 {
		return "", fmt.Errorf("expected the request to pass two gateways, got %d", passed)
	}
	if first(east.Endpoints) != a.At {
		return "", fmt.Errorf("expected east's picker to have named %s, which answered; it named %q", a.At, east.Endpoints)
	}
	p.why("nothing was picked here; east's gateway asked its own picker, which named %s. By its X-Forwarded-For, the request passed two gateways.", s.serverAt(a.At))
	return fmt.Sprintf("%s of cluster east answered through east's gateway", a.By), nil
}

// abroad asks a question that cluster east must answer, and returns how many gateways it passed on its way.
func (s *stage) abroad(ctx context.Context, p *page, prefix string) (a answer, passed int, err error) {
	q := question("llama", "Who are you?")
	p.curl(prefix, q)
	if err := recordable(ctx); err != nil {
		return a, 0, err
	}
	if a, err = s.ask(ctx, s.here.url+prefix, q); err != nil {
		return a, 0, err
	}
	p.answer(a)
	if err := a.from("east-llama-"); err != nil {
		return a, 0, err
	}
	passed, err = s.gateways(ctx, a.At)
	return a, passed, err
}

// recorded returns the last pick that a cluster's picker recorded for a pool, which must not be older than since.
func (s *stage) recorded(ctx context.Context, c *cluster, pool string, since time.Time) (picker.Record, error) {
	picks, err := s.picks(ctx, c, pool)
	if err != nil {
		return picker.Record{}, fmt.Errorf("picks of %s in cluster %s: %w", pool, c.name, err)
	}
	if len(picks) == 0 || picks[0].Time.Before(since) {
		return picker.Record{}, fmt.Errorf("expected the picker of cluster %s to have picked from %s, but it has no record of that", c.name, pool)
	}
	return picks[0], nil
}

// comparison is what a picker saw when it chose: what was under way at each endpoint, without the request itself.
func comparison(pick picker.Record) string {
	var loads []string
	equal := true
	var some float64
	for i, v := range pick.Verdicts {
		load := v.State.Queue + v.State.Running + float64(v.State.InFlight)
		if v.Address == first(pick.Endpoints) {
			load--
		}
		if i == 0 {
			some = load
		}
		equal = equal && load == some
		loads = append(loads, fmt.Sprintf("%s %.0f", podName(v.Pod), load))
	}
	if equal {
		return fmt.Sprintf("found %d servers with equally little to do, and drew one.", len(loads))
	}
	return fmt.Sprintf("compared what they had to do (%s).", strings.Join(loads, ", "))
}

// podName is the name of a pod in a verdict, without the address that penstock adds for ModelServers.
func podName(pod string) string {
	name, _, _ := strings.Cut(pod, "/")
	return name
}

// from tells whether an answer is good and comes from a server whose name begins with prefix.
func (a answer) from(prefix string) error {
	if a.Status != 200 || !strings.HasPrefix(a.By, prefix) {
		return fmt.Errorf("expected 200 from one of %s*, got %d from %q: %s", prefix, a.Status, a.By, a.Text)
	}
	return nil
}

// first is the first of the endpoints that a picker named.
func first(endpoints string) string {
	head, _, _ := strings.Cut(endpoints, ",")
	return head
}

// How many requests the split is counted over, and how far from the half each side may be: five standard deviations, so
// that a good draw fails once in two million times.
const (
	splitRequests = 200
	splitSlack    = 35
)

// split counts who answers.
func split(ctx context.Context, s *stage, p *page, prefix string) (string, error) {
	q := question("llama", "Hi")
	q.MaxTokens = 1
	p.say(fmt.Sprintf("%d times:", splitRequests))
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
	if err := even(here, east); err != nil {
		return "", err
	}
	p.why("for each request, Envoy draws one of the two backends by weight; then that backend's own picker is asked: the one here, or east's.")
	return fmt.Sprintf("%d of %d were answered here, %d in cluster east", here, splitRequests, east), nil
}

// shares adds up what each cluster answered.
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

// even tells whether a count is what equal weights give.
func even(here, east int) error {
	if low := splitRequests/2 - splitSlack; here+east != splitRequests || here < low || east < low {
		return fmt.Errorf("expected about half of %d on each side, at least %d; got %d here and %d in east", splitRequests, low, here, east)
	}
	return nil
}

// names lists the servers here that have a model.
func names(model string) []string {
	var out []string
	for _, server := range servers {
		if server.model == model && !strings.HasPrefix(server.name, "east-") {
			out = append(out, server.name)
		}
	}
	return out
}
