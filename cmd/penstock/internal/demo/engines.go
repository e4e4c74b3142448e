package demo

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

type gateway struct{ key string }

func enginesScript() script {
	g := &gateway{}
	return script{
		folder: "engines", sites: []string{"here"}, flags: []string{"--devices", "1"}, end: syscall.SIGINT,
		later:   []string{"here/qwen.yaml", "here/qwen-changed.yaml", "here/keys.yaml", "here/coder.yaml"},
		prepare: func(*show) {},
		begin: func(d *show) {
			d.command(fmt.Sprintf("GW=%s   HERE='-f %s --state %s'", d.url, d.file("here"), d.state("here")))
		},
		steps: []func(*show) []any{g.starts, g.changes, g.requiresKeys, g.swaps, g.ends},
		after: (*show).down,
	}
}

// down ends model servers that did not end in time.
func (d *show) down() error {
	if found, err := filepath.Glob(filepath.Join(d.state("here"), "engines")); err != nil || len(found) == 0 {
		return err // no server was started
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(d.ctx), timeout)
	defer cancel()
	out, err := d.penstock(ctx, "down", "-f", d.file("here"), "--state", d.state("here")).CombinedOutput()
	if err != nil {
		return fmt.Errorf("penstock down: %w: %s", err, out)
	}
	return nil
}

func (d *show) phase(name, phase string) {
	line, head := "", fmt.Sprintf("ModelDeployment default/%s is %s: ", name, phase)
	if wait(d.ctx, func() bool { line = d.clusters["here"].find(head); return line != "" }) != nil {
		failf("%s is not %s within %s", name, phase, timeout)
	}
	d.output(head + line)
}

func (g *gateway) question(model string) chat {
	q := question(model, "Hello there", 0)
	if g.key != "" {
		q.key, q.keyIn = g.key, "ALICE"
	}
	return q
}

func (d *show) answers(q chat, status int) (a answer) {
	d.curl("", q)
	err := wait(d.ctx, func() bool { // a new file takes effect after some milliseconds
		a = d.ask(d.ctx, d.url, q)
		return a.Status == status
	})
	d.by(a.By, "%d %s in %d ms", a.Status, strings.TrimSpace(a.Text), a.Took.Milliseconds())
	expect(err == nil, "%d, got %d", status, a.Status)
	return a
}

func (d *show) ended(server answer) {
	check(wait(d.ctx, func() bool {
		conn, err := net.DialTimeout("tcp", server.At, time.Second)
		if err == nil {
			_ = conn.Close()
		}
		return errors.Is(err, syscall.ECONNREFUSED)
	}))
}

func (g *gateway) starts(d *show) []any {
	began := time.Now()
	d.save("here/qwen.yaml", "here/qwen.yaml")
	d.phase("qwen", "Running")
	a := d.answers(g.question("qwen"), http.StatusOK)
	return []any{a.By, time.Since(began).Milliseconds()}
}

func (g *gateway) requiresKeys(d *show) []any {
	d.save("here/keys.yaml", "here/keys.yaml")
	d.answers(g.question("qwen"), http.StatusUnauthorized)
	args := []string{"keys", "create", "alice", "-f", d.file("here")}
	d.command(fmt.Sprintf("ALICE=$(%s %s)", d.cfg.Typed, strings.Join(args, " ")))
	g.key = strings.TrimSpace(string(must(d.penstock(d.ctx, args...).Output())))
	d.answers(g.question("qwen"), http.StatusOK)
	return nil
}

func (g *gateway) changes(d *show) []any {
	q := g.question("qwen")
	old := d.askWith(q)
	now := old
	served, n := d.load(q, func(by string) string { return by }, func() {
		d.save("here/qwen-changed.yaml", "here/qwen.yaml")
		check(wait(d.ctx, func() bool { now = d.askWith(q); return now.By != old.By }))
		d.ended(old)
		now = d.askWith(q)
	})
	expect(served[old.By] > 0 && served[now.By] > 0 && now.By != old.By,
		"answers of the old and the new server, got %v", served)
	return []any{now.By, old.By, n}
}

func (d *show) askWith(q chat) answer {
	a := d.ask(d.ctx, d.url, q)
	expect(a.Status == http.StatusOK, "200, got %d %s", a.Status, a.Text)
	return a
}

const longTokens = 100

func (g *gateway) swaps(d *show) []any {
	d.save("here/coder.yaml", "here/coder.yaml")
	d.phase("coder", "Pending")
	d.text("An answer of qwen is in flight, of %d words, and a request for coder comes:", longTokens)
	q := g.question("qwen")
	q.MaxTokens, q.IgnoreEOS = longTokens, true
	var words *stream
	check(wait(d.ctx, func() bool { // the authorization service denies requests that it cannot decide in time
		return try(func() { words = d.open(d.url, q) }) == nil
	}))
	n, read := 0, make(chan error, 1)
	go func() {
		var err error
		n, err = words.read(ignore)
		read <- err
	}()
	coder := d.answers(g.question("coder"), http.StatusOK)
	check(<-read)
	expect(n == longTokens, "%d words of qwen, got %d", longTokens, n)
	d.phase("qwen", "Asleep")
	d.text("And back:")
	qwen := d.answers(g.question("qwen"), http.StatusOK)
	d.phase("coder", "Asleep")
	d.ended(coder)
	return []any{n, coder.Took.Milliseconds(), qwen.Took.Milliseconds()}
}

func (g *gateway) ends(d *show) []any {
	server := d.answers(g.question("qwen"), http.StatusOK)
	d.command("rm " + d.file("here/qwen.yaml"))
	check(os.Remove(d.file("here/qwen.yaml")))
	a := d.answers(g.question("qwen"), http.StatusNotFound)
	d.ended(server)
	return []any{a.Status, server.By}
}
