package demo

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/penstock-project/penstock/picker/modelserver"
)

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
		steps: []func(*show) []any{
			joined, annotated, sharedByTwo, drained, undone, stopped, leastLoaded, lost,
		},
	}
}

func (d *show) startPicker() {
	d.run(epp, "picker", "-f", d.file("west"), "--bind-address", "127.0.0.1", "--secure-serving=false",
		"--grpc-port", fmt.Sprint(d.ports[epp]), "--grpc-health-port", "0", "--metrics-port", "0")
}

func (d *show) call(name, more, stdin string, args ...string) string {
	d.command(d.cfg.Typed + " " + strings.Join(args, " ") + " $" + strings.ToUpper(name) + more)
	cmd := d.penstock(d.ctx, append(args, "-f", d.file(name), "--state", d.state(name))...)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		failf("penstock %s in %s: %w: %s", strings.Join(args, " "), name, err, exit.Stderr)
	}
	check(err)
	return string(out)
}

func (d *show) list() { d.output(d.call("here", "", "", "clusters", "list")) }

func (d *show) until(text string, times int) {
	last := ""
	if err := wait(d.ctx, func() bool {
		out, err := d.penstock(d.ctx, "clusters", "list", "-f", d.file("here"), "--state", d.state("here")).Output()
		last = string(out)
		return err == nil && strings.Count(last, text) == times
	}); err != nil {
		failf("penstock clusters list in here printed at last:\n%s", last)
	}
}

func joined(d *show) []any {
	for _, other := range []string{"east", "west"} {
		for _, way := range [][2]string{{other, "here"}, {"here", other}} {
			text := d.call(way[0], " |", "", "clusters", "show")
			join := []string{"clusters", "join", "-"}
			if way[1] == "here" {
				join = append(join, "--allow-namespaces", "default")
			}
			d.call(way[1], "", text, join...)
		}
	}
	d.until("Ready  yes", 2)
	d.list()
	return nil
}

func (d *show) save(from, to string) {
	text := must(render(d.folder, from, d.ports))
	d.yaml(to, "saved", excerpt(text))
	d.write(to, text)
}

func (d *show) servedBy(name string) (a answer) {
	if err := wait(d.ctx, func() bool {
		a = d.ask(d.ctx, d.url, question("llama", "Hello there", 0))
		return a.Status == http.StatusOK && strings.HasPrefix(a.By, name)
	}); err != nil {
		failf("no request is served by %s; the last answer: %d %s from %q: %w", name, a.Status, a.Text, a.By, err)
	}
	return a
}

func annotated(d *show) []any {
	q := question("llama", "Hello there", 0)
	d.curl("", q)
	a := d.ask(d.ctx, d.url, q)
	d.output(fmt.Sprintf("%d: no cluster exports the pool", a.Status))
	expect(a.Status != http.StatusOK, "no answer before the export, got one from %s", a.By)
	d.save("east/exported.yaml", "east/pool.yaml")
	began := time.Now()
	a = d.servedBy("east")
	took := time.Since(began)
	d.curl("", q)
	d.answer(a)
	return []any{a.By, took.Milliseconds()}
}

func (d *show) during(action func()) (served map[string]int, sum int) {
	cluster := func(server string) string { return before(server, "-") }
	return d.load(question("llama", "Hello there", 0), cluster, action)
}

// load sends requests, four at a time, until action returns, and counts them by name(server). No
// request may fail.
func (d *show) load(q chat, name func(server string) string, action func()) (served map[string]int, sum int) {
	ctx, stop := context.WithCancel(d.ctx)
	var group sync.WaitGroup
	var mu sync.Mutex
	var failed []string
	served = map[string]int{}
	for range 4 {
		group.Go(func() {
			for ctx.Err() == nil {
				var a answer
				err := try(func() { a = d.ask(ctx, d.url, q) })
				mu.Lock()
				switch {
				case ctx.Err() != nil:
				case err != nil || a.Status != http.StatusOK:
					failed = append(failed, fmt.Sprintf("%d %s", a.Status, a.Text))
				default:
					served[name(a.By)]++
				}
				mu.Unlock()
			}
		})
	}
	err := try(action)
	stop()
	group.Wait()
	if len(failed) > 0 {
		failf("%d requests failed, the first: %s", len(failed), failed[0])
	}
	for _, name := range slices.Sorted(maps.Keys(served)) {
		d.line("     %-5s %5d %s", name, served[name], bar(served[name], 20))
		sum += served[name]
	}
	check(err)
	return served, sum
}

func (d *show) share(names ...string) int {
	for end := time.Now().Add(timeout); ; {
		served, n := d.during(func() { d.pause(time.Second) })
		if slices.Equal(slices.Sorted(maps.Keys(served)), names) {
			return n
		}
		expect(time.Now().Before(end) && d.ctx.Err() == nil, "that %s serve, got %v", strings.Join(names, " and "),
			served)
	}
}

func sharedByTwo(d *show) []any {
	d.save("west/exported.yaml", "west/pool.yaml")
	d.servedBy("west")
	return []any{d.share("east", "west")}
}

func drained(d *show) []any {
	_, n := d.during(func() {
		d.output(d.call("east", "", "", "clusters", "drain"))
		d.list()
	})
	return []any{n, d.share("west")}
}

func undone(d *show) []any {
	_, n := d.during(func() {
		d.output(d.call("east", "", "", "clusters", "drain", "--undo"))
		d.servedBy("east")
	})
	return []any{n}
}

func stopped(d *show) []any {
	d.command("# Ctrl-C in the terminal of west's penstock up")
	d.clusters["west"].stop()
	d.until("Unreachable", 1)
	n := d.share("east", "west")
	d.list()
	d.launch("west")
	d.clusters["west"].served(d.ctx)
	d.until("Ready  yes", 2)
	return []any{n}
}

const busyStreams, busyTokens = 40, 20_000

func leastLoaded(d *show) []any {
	d.save("here/policy.yaml", "here/policy.yaml")
	q := long("llama", "Count sheep", busyTokens)
	q.Stream = true
	east := d.clusters["east"].url()
	d.text("Clients of east ask it for %d long answers:", busyStreams)
	d.command(fmt.Sprintf("curl -s %s%s -d '%s' # %d times", east, completions, q.json(), busyStreams))
	for range busyStreams {
		d.open(east, q)
	}
	n := d.share("west")
	d.output(d.call("here", "", "", "explain", "--last", "1", "--pool", "default/llama@"))
	return []any{n}
}

func lost(d *show) []any {
	check(os.Remove(d.file("here/policy.yaml")))
	d.share("east", "west")
	after := 0
	_, n := d.during(func() {
		d.command("# Ctrl-C in the terminals of west's penstock up and penstock picker")
		d.clusters["west"].stop()
		d.clusters[epp].stop()
		after = d.share("east")
		d.startPicker()
		d.launch("west")
		d.clusters["west"].served(d.ctx)
		d.servedBy("west")
	})
	return []any{n + after, after}
}
