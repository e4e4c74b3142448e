package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/penstock-project/penstock/conformance/promises/process"
)

func (r *run) processes(ctx context.Context) error {
	if err := r.servers(ctx); err != nil || r.Up {
		return err
	}
	return r.attach()
}

// edge is an Envoy. All edges listen on the Gateway's ports, and the kernel distributes connections
// among them.
type edge struct {
	*process.Process
	admin int
}

func (r *run) attach() error {
	for i := range max(1, r.Envoys) {
		e, err := r.edge(fmt.Sprintf("envoy-%d", i+1), r.planes...)
		if err != nil {
			return err
		}
		r.edges = append(r.edges, e)
	}
	return nil
}

func (r *run) edge(name string, planes ...*plane) (e edge, err error) {
	if e.admin, err = r.ports.Free(); err != nil {
		return e, err
	}
	e.Process, err = startEnvoy(r.Penstock, r.Envoy, r.Dir, name, e.admin, r.Drain, planes...)
	return e, err
}

func (e edge) live(ctx context.Context) error {
	return process.Eventually(ctx, e.Name+" is live",
		func() error { return e.Answers(fmt.Sprintf("http://127.0.0.1:%d/ready", e.admin)) })
}

func (r *run) servers(ctx context.Context) error {
	states := filepath.Join(r.Dir, "state")
	serve := func(name, dir string, extra ...string) (*plane, error) {
		p := &plane{name: name, binary: r.Penstock, dir: dir, drain: r.Drain, state: filepath.Join(states, name),
			extra: extra}
		for _, port := range []*int{&p.picker, &p.status} {
			var err error
			if *port, err = r.ports.Free(); err != nil {
				return nil, err
			}
		}
		return p, nil
	}
	var err error
	if r.picker, err = serve("external", r.remote.path, "--default-pool", "default/f"); err != nil {
		return err
	}
	r.picker.picker = r.world.externalPort
	if err := r.picker.start(r.Dir); err != nil {
		return err
	}
	if err := r.picker.ready(ctx); err != nil {
		return err
	}
	access := filepath.Join(r.Dir, "access.log")
	if r.Up {
		r.up, err = process.Start("up", filepath.Join(r.Dir, "up.log"), r.Penstock, []string{"ENVOY=" + r.Envoy},
			"up", "-f", r.folder.path, "--state", filepath.Join(states, "up"), "--drain-time", r.Drain.String(),
			"--concurrency", "2", "--access-log", access)
		return err
	}
	for _, name := range []string{"a", "b"} {
		p, err := serve(name, r.folder.path, append(r.resolver(), "--access-log", access)...)
		if err != nil {
			return err
		}
		r.planes = append(r.planes, p)
	}
	for _, p := range r.planes {
		for _, other := range r.planes {
			p.pickers, p.peers = append(p.pickers, other.picker), append(p.peers, other)
		}
		if err := p.start(r.Dir); err != nil {
			return err
		}
	}
	for _, p := range r.planes {
		if err := p.ready(ctx); err != nil {
			return err
		}
	}
	return nil
}

type restart struct {
	step int
	do   func(context.Context) error
}

func (r *run) restarts() []restart {
	var out []restart
	total := r.Restarts * len(r.planes)
	for i := range total {
		p := r.planes[i%len(r.planes)]
		how := []func(context.Context, *plane) error{r.terminate, r.kill, r.freeze}[i/len(r.planes)%3]
		out = append(out,
			restart{step: (i + 1) * r.Steps / (total + 1), do: func(ctx context.Context) error { return how(ctx, p) }})
	}
	return out
}

const apart = time.Second

func (r *run) again(ctx context.Context, p *plane) error {
	if err := p.start(r.Dir); err != nil {
		return err
	}
	if err := p.ready(ctx); err != nil {
		return err
	}
	r.note("%s is ready again", p.name)
	return wait(ctx, apart)
}

func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

func (r *run) terminate(ctx context.Context, p *plane) error {
	r.note("SIGTERM to %s", p.name)
	if err := p.Stop(10 * time.Second); err != nil {
		return err
	}
	return r.again(ctx, p)
}

func (r *run) kill(ctx context.Context, p *plane) error {
	r.note("SIGKILL to %s", p.name)
	p.Signal(syscall.SIGKILL)
	<-p.Ended()
	return r.again(ctx, p)
}

// freezeTime is too short for peers to detect the freeze. The control plane then resumes in the
// middle of its work.
const freezeTime = 4 * time.Second

func (r *run) freeze(ctx context.Context, p *plane) error {
	r.note("SIGSTOP to %s", p.name)
	p.Signal(syscall.SIGSTOP)
	err := wait(ctx, freezeTime)
	r.note("SIGCONT to %s", p.name)
	p.Signal(syscall.SIGCONT)
	return errors.Join(err, wait(ctx, apart))
}

func (r *run) end() error {
	var problems []error
	stop := func(p *process.Process, grace time.Duration) {
		if p == nil {
			return
		}
		if err := p.Running(); err != nil && p != r.up {
			problems = append(problems, fmt.Errorf("too early: %w", err))
			return
		}
		problems = append(problems, p.Stop(grace))
	}
	stop(r.up, 30*time.Second)
	for _, e := range r.edges {
		stop(e.Process, 5*time.Second)
	}
	for _, p := range append(r.planes, r.picker) {
		if p != nil {
			stop(p.Process, 10*time.Second)
		}
	}
	for _, f := range r.world.fleets {
		for _, s := range f.servers {
			s.stop()
		}
	}
	if r.dns != nil {
		problems = append(problems, r.dns.Close())
	}
	r.retired.Wait()
	return errors.Join(append(problems, r.nacks())...)
}

func (r *run) nacks() error {
	var found error
	for _, name := range []string{"up", "a", "b"} {
		text, err := os.ReadFile(filepath.Join(r.Dir, name+".log"))
		if err != nil {
			continue
		}
		for _, line := range lines(string(text)) {
			if nackLine.MatchString(line) {
				found = errors.Join(found, fmt.Errorf("%s: %s", name, line))
			}
		}
	}
	return found
}
