package principals

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"
)

func (r *rig) expect(host, reply string) error {
	status, text, err := r.ask(host, "/v1/chat/completions", body)
	if err == nil && (status != http.StatusOK || text != reply) {
		err = fmt.Errorf("%s: got %d: %.200s, want 200 %.200s", host, status, text, reply)
	}
	return err
}

// beside sends another victim's requests in sequence until end is called. A failed request fails
// the test.
func (r *rig) beside(ask func() error) (end func()) {
	ctx, stop := context.WithCancel(r.Context())
	r.Cleanup(stop)
	done := make(chan struct{})
	sent, failed := 0, []string(nil)
	go func() {
		defer close(done)
		tick := time.NewTicker(pace)
		defer tick.Stop()
		for ctx.Err() == nil {
			<-tick.C
			err := ask()
			if sent++; err != nil && ctx.Err() == nil {
				failed = append(failed, err.Error())
			}
		}
	}()
	return func() {
		r.Helper()
		stop()
		<-done
		if len(failed) > 0 || sent == 0 {
			first := strings.Join(failed[:min(5, len(failed))], "; ")
			r.Errorf("%d of %d requests of the further victim failed, want none, and some sent: %s", len(failed), sent,
				first)
		}
	}
}

// memoryLimit is the chart's memory limit of a process, in bytes.
const memoryLimit = 1 << 30

// harmless fails the test if the victim's configuration or reports changed, Envoy rejected a
// resource, or the process exceeded the chart's memory limit.
func (r *rig) harmless(what string) {
	r.Helper()
	if difference := r.changed(); difference != "" {
		r.Errorf("%s: the victim's part has changed, or Envoy rejects something, want neither:\n%s", what, difference)
	}
	if bytes, err := r.penstock.RSS(); err != nil || bytes > memoryLimit {
		r.Errorf("%s: penstock has %d MiB: %v, want at most %d MiB", what, bytes>>20, err, memoryLimit>>20)
	}
}

// about lists the reports about an object. NAME replaces the object's name in them.
func (d document) about(namespace, name string) (out []string) {
	add := func(text string) {
		if text = strings.ReplaceAll(text, namespace+"/"+name, "NAME"); !slices.Contains(out, text) {
			out = append(out, text)
		}
	}
	for i := range d.Objects {
		if o := d.Objects[i]; o.Namespace == namespace && o.Name == name {
			for _, text := range d.negatives(i) {
				add(text)
			}
		}
	}
	for _, f := range d.Findings {
		if f.Owner.Namespace == namespace && f.Owner.Name == name && !momentary(f) {
			f.Source = ""
			add(fmt.Sprintf("%s: %s", f.Severity, f))
		}
	}
	return out
}

func without(list, other []string) []string {
	return slices.DeleteFunc(list, func(text string) bool { return slices.Contains(other, text) })
}

// saw records an outcome. While the table is rewritten, it also logs the evidence.
func (r *run) saw(c cell, o outcome, evidence string) {
	r.t.Helper()
	if rewriting() {
		r.t.Logf("%s: %s: %.300s", c, o, evidence)
	}
	r.see(c, o, evidence)
}

func (r *rig) metrics() string {
	r.Helper()
	resp, err := http.Get("http://" + local(r.http) + "/metrics")
	if err != nil {
		r.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		r.Fatal(err)
	}
	return string(text)
}
