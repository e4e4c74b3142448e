package demo

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/penstock-project/penstock/picker/modelserver"
)

// epp is the name of west's picker, a process of its own.
const epp = "west-epp"

func setScript() script {
	return script{
		folder: "set", sites: []string{"here", "east", "west"},
		ports: []string{"here-picker", "here-members", "east-picker", "east-members", "west-picker", "west-members",
			epp},
		later: []string{"east/exported.yaml", "west/exported.yaml", "here/policy.yaml"},
		prepare: func(d *show) {
			for _, name := range []string{"east-llama-1", "east-llama-2", "west-llama-1", "west-llama-2"} {
				d.model(name, modelserver.Config{Model: "llama", TimeToFirstToken: firstToken,
					InterTokenLatency: firstToken})
			}
		},
		begin: func(d *show) {
			d.startPicker()
			d.command("GW=" + d.url)
			for _, name := range d.sites {
				d.command(fmt.Sprintf("%s='-f %s --state %s'", strings.ToUpper(name), d.file(name), d.state(name)))
			}
		},
		steps: []func(*show, string) string{
			joined, annotated, sharedByTwo, drained, undone, stopped, leastLoaded, lost,
		},
	}
}

// startPicker runs west's picker.
func (d *show) startPicker() {
	d.run(epp, "picker", "-f", d.file("west"), "--bind-address", "127.0.0.1", "--secure-serving=false",
		"--grpc-port", fmt.Sprint(d.ports[epp]), "--grpc-health-port", "0", "--metrics-port", "0")
}

// call runs a command over a cluster's folder, as a person would, and shows it.
func (d *show) call(name, more, stdin string, args ...string) string {
	d.command(d.cfg.Typed + " " + strings.Join(args, " ") + " $" + strings.ToUpper(name) + more)
	cmd := d.penstock(d.ctx, append(args, "-f", d.file(name), "--state", d.state(name))...)
	cmd.Stdin = strings.NewReader(stdin)
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		failf("penstock %s in %s: %w: %s", strings.Join(args, " "), name, err, errs.String())
	}
	return string(out)
}

// list shows `penstock clusters list` of the first cluster.
func (d *show) list() { d.output(d.call("here", "", "", "clusters", "list")) }

// until waits until `penstock clusters list` of the first cluster is as expected.
func (d *show) until(expected func(list string) bool) {
	last := ""
	if err := wait(d.ctx, func() bool {
		out, err := d.penstock(d.ctx, "clusters", "list", "-f", d.file("here"), "--state", d.state("here")).Output()
		last = string(out)
		return err == nil && expected(last)
	}); err != nil {
		failf("penstock clusters list in here printed at last:\n%s", last)
	}
}

// bothReady reports whether both other members are connected.
func bothReady(list string) bool { return strings.Count(list, "Ready  yes") == 2 }

// joined makes here a member of east and of west, and they of it.
func joined(d *show, _ string) string {
	for _, other := range []string{"east", "west"} {
		for _, way := range [][2]string{{other, "here"}, {"here", other}} {
			text := d.call(way[0], " |", "", "clusters", "show")
			join := []string{"clusters", "join", "-"}
			if way[1] == "here" { // where the others export nothing yet
				join = append(join, "--allow-namespaces", "default")
			}
			d.call(way[1], "", text, join...)
		}
	}
	d.until(bothReady)
	d.list()
	return "east and west are members of here, and connected"
}

// export annotates a cluster's pool.
func (d *show) export(name string) {
	text := must(render(d.folder, name+"/exported.yaml", d.ports))
	d.yaml(name+"/pool.yaml", "saved", excerpt(text))
	check(save(d.file(name+"/pool.yaml"), text))
}

// servedBy waits until a request is served by a cluster.
func (d *show) servedBy(name string) (a answer) {
	if err := wait(d.ctx, func() bool {
		a = must(d.ask(d.ctx, d.url, question("llama", "Hello there")))
		return a.Status == http.StatusOK && strings.HasPrefix(a.By, name)
	}); err != nil {
		failf("no request is served by %s; the last answer: %d %s from %q: %w", name, a.Status, a.Text, a.By, err)
	}
	return a
}

func annotated(d *show, _ string) string {
	q := question("llama", "Hello there")
	d.curl("", q)
	before := must(d.ask(d.ctx, d.url, q))
	d.output(fmt.Sprintf("%d: no cluster exports the pool", before.Status))
	expect(before.Status != http.StatusOK, "no answer before the export, got one from %s", before.By)
	d.export("east")
	began := time.Now()
	a := d.servedBy("east")
	took := time.Since(began)
	d.curl("", q)
	d.answer(a)
	return fmt.Sprintf("served by %s, %d ms after the file was saved", a.By, took.Milliseconds())
}

// traffic sends requests without a pause, four at a time, until ended. No request may fail.
type traffic struct {
	stop   context.CancelFunc
	group  sync.WaitGroup
	mu     sync.Mutex
	served map[string]int // by cluster
	failed []string
}

func (d *show) traffic() *traffic {
	t := &traffic{served: map[string]int{}}
	var ctx context.Context
	ctx, t.stop = context.WithCancel(d.ctx)
	for range 4 {
		t.group.Go(func() {
			for ctx.Err() == nil {
				a, err := d.ask(ctx, d.url, question("llama", "Hello there"))
				if ctx.Err() != nil {
					return
				}
				t.mu.Lock()
				if err != nil || a.Status != http.StatusOK {
					t.failed = append(t.failed, fmt.Sprintf("%d %.100s %v", a.Status, a.Text, err))
				} else {
					cluster, _, _ := strings.Cut(a.By, "-")
					t.served[cluster]++
				}
				t.mu.Unlock()
			}
		})
	}
	return t
}

// ended stops the traffic, and shows and returns how many requests it had.
func (t *traffic) ended(d *show) (n int) {
	t.stop()
	t.group.Wait()
	if len(t.failed) > 0 {
		failf("%d requests failed, the first: %s", len(t.failed), t.failed[0])
	}
	for _, name := range slices.Sorted(maps.Keys(t.served)) {
		d.line("     %-5s %5d %s", name, t.served[name], bar(t.served[name], 20))
		n += t.served[name]
	}
	return n
}

// during runs an action under traffic, and returns how many requests there were.
func (d *show) during(action func()) int {
	t := d.traffic()
	err := try(action)
	n := t.ended(d)
	check(err)
	return n
}

// share waits until traffic is served by some clusters alone: a change takes a moment to arrive.
func (d *show) share(names ...string) int {
	for end := time.Now().Add(timeout); ; {
		t := d.traffic()
		select {
		case <-d.ctx.Done():
		case <-time.After(time.Second):
		}
		n := t.ended(d)
		if slices.Equal(slices.Sorted(maps.Keys(t.served)), names) {
			return n
		}
		if time.Now().After(end) || d.ctx.Err() != nil {
			failf("expected that %s serve, got %v", strings.Join(names, " and "), t.served)
		}
	}
}

func sharedByTwo(d *show, _ string) string {
	d.export("west")
	d.servedBy("west")
	return fmt.Sprintf("%d requests, and both clusters serve", d.share("east", "west"))
}

func drained(d *show, _ string) string {
	n := d.during(func() {
		d.output(d.call("east", "", "", "clusters", "drain"))
		d.list()
	})
	return fmt.Sprintf("%d requests while east drained, %d afterwards, all by west: none failed", n, d.share("west"))
}

func undone(d *show, _ string) string {
	n := d.during(func() {
		d.output(d.call("east", "", "", "clusters", "drain", "--undo"))
		d.servedBy("east")
	})
	return fmt.Sprintf("%d requests, none failed, and east serves again", n)
}

func stopped(d *show, _ string) string {
	d.command("# Ctrl-C in the terminal of west's penstock up")
	d.clusters["west"].stop()
	d.until(func(list string) bool { return strings.Contains(list, "Unreachable") })
	n := d.share("east", "west")
	d.list()
	d.launch("west")
	check(d.clusters["west"].served(d.ctx))
	d.until(bothReady)
	return fmt.Sprintf("%d requests while it was away, at both clusters, and none failed", n)
}

// busyStreams are the long answers that keep east busy, of busyTokens each.
const busyStreams, busyTokens = 40, 20_000

// leastLoaded sends requests where they wait least, while clients of east keep it busy.
func leastLoaded(d *show, _ string) string {
	text := must(render(d.folder, "here/policy.yaml", d.ports))
	check(save(d.file("here/policy.yaml"), text))
	d.yaml("here/policy.yaml", "saved", excerpt(text))
	q := long("llama", "Count sheep", busyTokens)
	q.Stream = true
	east := d.clusters["east"].url()
	d.text(fmt.Sprintf("Clients of east ask it for %d long answers:", busyStreams))
	d.command(fmt.Sprintf("curl -s %s%s -d '%s' # %d times", east, completions, q.json(), busyStreams))
	for range busyStreams {
		d.open(east, q)
	}
	n := d.share("west")
	d.output(d.call("here", "", "", "explain", "--last", "1", "--pool", "default/llama@"))
	return fmt.Sprintf("%d requests here while east is busy, and west serves all", n)
}

// lost ends all processes of west except for its model servers, while requests go on, and starts
// them again.
func lost(d *show, _ string) string {
	check(os.Remove(d.file("here/policy.yaml")))
	d.share("east", "west")
	after := 0
	n := d.during(func() {
		d.command("# Ctrl-C in the terminals of west's penstock up and penstock picker")
		d.clusters["west"].stop()
		d.clusters[epp].stop()
		after = d.share("east")
		d.launch("west")
		d.startPicker()
		check(d.clusters["west"].served(d.ctx))
		d.servedBy("west")
	})
	return fmt.Sprintf("%d requests, of which %d while west was lost, and none failed; west serves again", n+after,
		after)
}
