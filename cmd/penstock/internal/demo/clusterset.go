package demo

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/penstock-project/penstock/cmd/penstock/internal/sim"
)

// sites are the clusters of the cluster set's demo; requests arrive at the first.
var sites = []string{"here", "east", "west"}

// tour runs the demo of cluster sets: three clusters, and the model servers of two.
type tour struct {
	*stage
	clusters map[string]*cluster
	stops    map[string]func() // ends a cluster's process, and waits until it has ended
	group    *errgroup.Group
	running  context.Context
}

// RunClusterSet runs the demo of cluster sets, as Run does the other one.
func RunClusterSet(ctx context.Context, cfg Config) (err error) {
	t, err := newTour(cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.close()) }()
	p := &page{w: cfg.Out, colour: cfg.Colour}
	t.group, t.running = errgroup.WithContext(ctx)
	for _, server := range t.sims {
		t.group.Go(func() error { return server.Run(t.running) })
	}
	for _, name := range sites {
		t.start(name)
	}
	t.startPicker()
	t.group.Go(func() error {
		failed := t.runSteps(t.running, p)
		if cfg.Keep && failed == nil {
			t.keep(t.running, p)
		}
		if failed == nil {
			return errDone
		}
		return failed
	})
	if err = t.group.Wait(); errors.Is(err, errDone) {
		err = nil
	}
	return err
}

func newTour(cfg Config) (*tour, error) {
	dir, err := os.MkdirTemp(shortTemp(), "penstock-demo-")
	if err != nil {
		return nil, err
	}
	t := &tour{
		stage: &stage{cfg: cfg, dir: dir, ports: map[string]int{},
			http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 20}}},
		clusters: map[string]*cluster{}, stops: map[string]func(){},
	}
	if err := t.prepare(); err != nil {
		return nil, errors.Join(err, t.close())
	}
	return t, nil
}

func (t *tour) prepare() error {
	var names []string
	for _, name := range sites {
		names = append(names, name, name+"-picker", name+"-members")
	}
	if err := t.choosePorts(append(names, epp)...); err != nil {
		return err
	}
	for _, name := range []string{"east-llama-1", "east-llama-2", "west-llama-1", "west-llama-2"} {
		model, err := sim.New(sim.Config{
			Name: name, Model: "llama", TimeToFirstToken: firstToken, InterTokenLatency: firstToken,
			Listen: []string{"127.0.0.1:0"}, Grace: time.Second, Log: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			return err
		}
		addresses, err := model.Listen()
		if err != nil {
			return err
		}
		t.sims = append(t.sims, model)
		t.ports[name] = int(portOf(addresses[0]))
	}
	for _, name := range sites {
		for _, file := range []string{"gateway.yaml", "set.yaml", "pool.yaml"} {
			if name == "here" && file == "pool.yaml" {
				continue
			}
			if _, err := write(t.dir, "set/"+name+"/"+file, t.ports); err != nil {
				return err
			}
		}
	}
	_, err := write(t.dir, "set/west/picker.yaml", t.ports)
	return err
}

func (t *tour) folder(name string) string { return filepath.Join(t.dir, "set", name) }

func (t *tour) state(name string) string { return filepath.Join(t.dir, "s", name) }

// epp is the name of west's picker, a process of its own.
const epp = "west-epp"

func (t *tour) start(name string) {
	t.run(name,
		"up", "-f", t.folder(name), "--state", t.state(name), "--concurrency", "1",
		"--picker", fmt.Sprintf("127.0.0.1:%d", t.ports[name+"-picker"]), "--members-listen",
		fmt.Sprintf("127.0.0.1:%d", t.ports[name+"-members"]))
}

func (t *tour) startPicker() {
	t.run(epp, "picker", "-f", t.folder("west"), "--state", t.state(epp), "--bind-address", "127.0.0.1",
		"--secure-serving=false",
		"--grpc-port", fmt.Sprint(t.ports[epp]), "--grpc-health-port", "0", "--metrics-port", "0")
}

func (t *tour) run(name string, args ...string) {
	c := &cluster{name: name, state: t.state(name), ready: make(chan struct{}),
		cmd: func(ctx context.Context) *exec.Cmd { return t.cfg.command(ctx, args...) }}
	t.clusters[name] = c
	ctx, stop := context.WithCancel(t.running)
	ended := make(chan struct{})
	t.stops[name] = func() {
		stop()
		<-ended
	}
	t.group.Go(func() error {
		defer close(ended)
		return c.Run(ctx)
	})
}

// leg is a step of the tour.
type leg struct {
	title, intro string
	run          func(ctx context.Context, t *tour, p *page) (result string, err error)
}

func legs() []leg {
	return []leg{
		{
			title: "Three clusters become a set",
			intro: "Each cluster has a ClusterSet with its name. show prints its entry for other clusters: its " +
				"address and its certificates, nothing secret.",
			run: joined,
		},
		{
			title: "Annotate a pool, and it serves elsewhere",
			intro: "The route here names the import llama, which no cluster exports yet. One line in the pool of " +
				"east changes that.",
			run: annotated,
		},
		{
			title: "A second cluster exports the pool too",
			intro: "Both share the requests.",
			run:   sharedByTwo,
		},
		{
			title: "Drain a cluster without an error",
			intro: "Requests go on all the time. While east drains, its members send it no new requests, and the " +
				"command waits until theirs have ended.",
			run: drained,
		},
		{
			title: "And back",
			intro: "The drain lasts until it is undone, also over restarts.",
			run:   undone,
		},
		{
			title: "An exporter's Penstock stops",
			intro: "The picker of west's pool is a process of its own (endpointPickerRef), as in a cluster with an " +
				"endpoint picker. West's Penstock stops. Its exports stay: requests go to west's picker and model " +
				"servers as before.",
			run: stopped,
		},
		{
			title: "Each request goes where it waits least",
			intro: "Weights do not follow load. With LeastLoad the picker here chooses the clusters for each " +
				"request: by east's reports every 200 ms, and by its own requests for west, whose picker " +
				"reports nothing.",
			run: leastLoaded,
		},
		{
			title: "A cluster is lost, and returns",
			intro: "West's Penstock, gateway and picker end while requests go on. Requests that they decline, or " +
				"cannot answer any more, are sent on to east.",
			run: lost,
		},
	}
}

func (t *tour) runSteps(ctx context.Context, p *page) error {
	began := time.Now()
	p.line("%s", p.paint(bold, "Penstock demo of cluster sets"))
	p.text("Three clusters on this machine, each a penstock process with an Envoy " + t.cfg.Envoy +
		"; east and west have two simulated model servers each.")
	for _, name := range sites {
		if _, err := t.clusters[name].served(ctx); err != nil {
			return t.failed(ctx, p, err)
		}
	}
	p.gap()
	p.command("GW=" + t.clusters["here"].url)
	for _, name := range sites {
		p.command(fmt.Sprintf("%s='-f %s --state %s'", strings.ToUpper(name), t.folder(name), t.state(name)))
	}
	p.ok(fmt.Sprintf("three gateways serve, after %.1f s", time.Since(began).Seconds()))
	all := legs()
	for i, l := range all {
		p.title(i+1, l.title)
		p.text(l.intro)
		result, err := l.run(ctx, t, p)
		if err != nil {
			return t.failed(ctx, p, err)
		}
		p.ok(result)
	}
	p.gap()
	p.line("%s",
		p.paint(bold, fmt.Sprintf("All %d steps went as promised, in %.0f s.", len(all), time.Since(began).Seconds())))
	if !t.cfg.Keep {
		p.text("To try it yourself: " + t.cfg.Typed + " demo --cluster-set --keep")
	}
	return nil
}

func (t *tour) failed(ctx context.Context, p *page, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	p.failed(err)
	for _, name := range sites {
		p.line("   output of penstock in cluster %s:\n%s", name, t.clusters[name].output())
	}
	return ErrFailed
}

// penstock runs and shows a command over a cluster's folder, as a person would.
func (t *tour) penstock(ctx context.Context, p *page, name string, shown string, stdin string, args ...string) (string,
	error) {
	p.command(t.cfg.Typed + " " + strings.Join(args, " ") + " $" + strings.ToUpper(name) + shown)
	cmd := t.cfg.command(ctx, append(args, "-f", t.folder(name), "--state", t.state(name))...)
	cmd.Stdin = strings.NewReader(stdin)
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("penstock %s in %s: %w: %s", strings.Join(args, " "), name, err, errs.String())
	}
	return string(out), nil
}

func (t *tour) list(ctx context.Context, p *page, name string) error {
	out, err := t.penstock(ctx, p, name, "", "", "clusters", "list")
	if err == nil {
		p.output(strings.Split(strings.TrimRight(out, "\n"), "\n"))
	}
	return err
}

// joined makes here, east and west members of each other.
func joined(ctx context.Context, t *tour, p *page) (string, error) {
	for _, other := range []string{"east", "west"} {
		for _, way := range [][2]string{{other, "here"}, {"here", other}} {
			text, err := t.penstock(ctx, p, way[0], " |", "", "clusters", "show")
			if err != nil {
				return "", err
			}
			join := []string{"clusters", "join", "-"}
			if way[1] == "here" { // where the others export nothing yet
				join = append(join, "--allow-namespaces", "default")
			}
			if _, err := t.penstock(ctx, p, way[1], "", text, join...); err != nil {
				return "", err
			}
		}
	}
	if err := t.until(ctx, "here", func(list string) bool {
		return strings.Count(list, "Ready  yes") == 2
	}); err != nil {
		return "", err
	}
	return "east and west are members of here, and connected", t.list(ctx, p, "here")
}

// until waits until `penstock clusters list` of a cluster is as expected.
func (t *tour) until(ctx context.Context, name string, expected func(list string) bool) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	last := ""
	err := waitUntil(ctx, func() (bool, error) {
		out, err := t.cfg.command(ctx, "clusters", "list", "-f", t.folder(name), "--state", t.state(name)).Output()
		last = string(out)
		return err == nil && expected(last), nil
	})
	if err != nil {
		return fmt.Errorf("penstock clusters list in %s printed at last:\n%s", name, last)
	}
	return nil
}

func (t *tour) export(p *page, name string) error {
	text, err := render("set/"+name+"/exported.yaml", t.ports)
	if err != nil {
		return err
	}
	p.yaml(name+"/pool.yaml", "saved", excerpt(text))
	target := filepath.Join(t.folder(name), "pool.yaml")
	if err := os.WriteFile(target+".tmp", []byte(text), 0o644); err != nil {
		return err
	}
	return os.Rename(target+".tmp", target)
}

// servedBy waits until a cluster serves a request.
func (t *tour) servedBy(ctx context.Context, name string) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var a answer
	err := waitUntil(ctx, func() (done bool, err error) {
		a, err = t.ask(ctx, t.clusters["here"].url, question("llama", "Hello there"))
		return err == nil && a.Status == http.StatusOK && strings.HasPrefix(a.By, name), err
	})
	if err != nil {
		err = fmt.Errorf("no request is served by %s; the last answer: %d %s from %q: %w", name, a.Status, a.Text, a.By,
			err)
	}
	return a, err
}

func annotated(ctx context.Context, t *tour, p *page) (string, error) {
	q := question("llama", "Hello there")
	p.curl("", q)
	before, err := t.ask(ctx, t.clusters["here"].url, q)
	if err != nil {
		return "", err
	}
	p.output([]string{fmt.Sprintf("%d: no cluster exports the pool", before.Status)})
	if before.Status == http.StatusOK {
		return "", fmt.Errorf("expected no answer before the export, got one from %s", before.By)
	}
	if err := t.export(p, "east"); err != nil {
		return "", err
	}
	began := time.Now()
	a, err := t.servedBy(ctx, "east")
	if err != nil {
		return "", err
	}
	took := time.Since(began)
	p.curl("", q)
	p.answer(a)
	return fmt.Sprintf("served by %s, %d ms after the file was saved", a.By, took.Milliseconds()), nil
}

// load sends requests without a pause until it is stopped.
type load struct {
	stop func() (served map[string]int, failed []string)
}

// traffic begins to send requests, four at a time.
func (t *tour) traffic(ctx context.Context) *load {
	ctx, cancel := context.WithCancel(ctx)
	var mu sync.Mutex
	served, failed := map[string]int{}, []string(nil)
	var group errgroup.Group
	for range 4 {
		group.Go(func() error {
			for ctx.Err() == nil {
				a, err := t.ask(ctx, t.clusters["here"].url, question("llama", "Hello there"))
				if ctx.Err() != nil {
					break
				}
				mu.Lock()
				if err != nil || a.Status != http.StatusOK {
					failed = append(failed, fmt.Sprintf("%d %.100s %v", a.Status, a.Text, err))
				} else {
					cluster, _, _ := strings.Cut(a.By, "-")
					served[cluster]++
				}
				mu.Unlock()
			}
			return nil
		})
	}
	return &load{stop: func() (map[string]int, []string) {
		cancel()
		_ = group.Wait() // its functions return nil
		return served, failed
	}}
}

func counts(p *page, served map[string]int) {
	for _, name := range slices.Sorted(maps.Keys(served)) {
		p.line("     %-5s %5d %s", name, served[name], bar(served[name], 20))
	}
}

// ended stops a load, and returns how many requests it sent; an error if one failed.
func (l *load) ended(p *page) (int, map[string]int, error) {
	served, failed := l.stop()
	if len(failed) > 0 {
		return 0, served, fmt.Errorf("%d requests failed, the first: %s", len(failed), failed[0])
	}
	counts(p, served)
	n := 0
	for _, requests := range served {
		n += requests
	}
	return n, served, nil
}

// shares waits until only some clusters serve a load: a change takes a moment to arrive.
func (t *tour) shares(ctx context.Context, p *page, names ...string) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for {
		l := t.traffic(ctx)
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
		n, served, err := l.ended(p)
		if err != nil {
			return n, err
		}
		if slices.Equal(slices.Sorted(maps.Keys(served)), names) {
			return n, nil
		}
		if ctx.Err() != nil {
			return n, fmt.Errorf("expected that %s serve, got %v", strings.Join(names, " and "), served)
		}
	}
}

func sharedByTwo(ctx context.Context, t *tour, p *page) (string, error) {
	if err := t.export(p, "west"); err != nil {
		return "", err
	}
	if _, err := t.servedBy(ctx, "west"); err != nil {
		return "", err
	}
	n, err := t.shares(ctx, p, "east", "west")
	return fmt.Sprintf("%d requests, and both clusters serve", n), err
}

func drained(ctx context.Context, t *tour, p *page) (string, error) {
	l := t.traffic(ctx)
	out, err := t.penstock(ctx, p, "east", "", "", "clusters", "drain")
	if err == nil {
		p.output(strings.Split(strings.TrimRight(out, "\n"), "\n"))
		err = t.list(ctx, p, "here")
	}
	n, _, failed := l.ended(p)
	if err := errors.Join(err, failed); err != nil {
		return "", err
	}
	after, err := t.shares(ctx, p, "west")
	return fmt.Sprintf("%d requests while east drained, %d afterwards, all by west: none failed", n, after), err
}

func undone(ctx context.Context, t *tour, p *page) (string, error) {
	l := t.traffic(ctx)
	out, err := t.penstock(ctx, p, "east", "", "", "clusters", "drain", "--undo")
	if err == nil {
		p.output([]string{strings.TrimSpace(out)})
		_, err = t.servedBy(ctx, "east")
	}
	n, _, failed := l.ended(p)
	return fmt.Sprintf("%d requests, none failed, and east serves again", n), errors.Join(err, failed)
}

func stopped(ctx context.Context, t *tour, p *page) (string, error) {
	p.command("# Ctrl-C in the terminal of west's penstock up")
	t.stops["west"]()
	if err := t.until(ctx, "here", func(list string) bool {
		return strings.Contains(list, "Unreachable")
	}); err != nil {
		return "", err
	}
	n, err := t.shares(ctx, p, "east", "west")
	if err == nil {
		err = t.list(ctx, p, "here")
	}
	if err != nil {
		return "", err
	}
	t.start("west")
	if _, err := t.clusters["west"].served(ctx); err != nil {
		return "", err
	}
	if err := t.until(ctx, "here", func(list string) bool {
		return strings.Count(list, "Ready  yes") == 2
	}); err != nil {
		return "", err
	}
	return fmt.Sprintf("%d requests while it was away, at both clusters, and none failed", n), nil
}

// keep prints commands to try, and waits until ctx ends.
func (t *tour) keep(ctx context.Context, p *page) {
	p.gap()
	p.line("%s", p.paint(bold, "The demo keeps running. In another terminal, with the variables above:"))
	p.command("curl -s $GW" + completions + " -d '" + question("llama", "Hello").json() + "'")
	p.command(t.cfg.Typed + " clusters list $HERE --watch")
	p.command(t.cfg.Typed + " clusters drain $WEST")
	p.command(t.cfg.Typed + " clusters leave $EAST")
	p.line("   Ctrl-C ends it and removes these files.")
	p.gap()
	for _, name := range sites {
		t.clusters[name].followTo(p.w)
	}
	<-ctx.Done()
}
