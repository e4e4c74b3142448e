package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"golang.org/x/sync/errgroup"
)

// ErrFailed is Run's error if a step failed. Run has printed what was expected and observed.
var ErrFailed = errors.New("the demo failed")

// errDone ends everything after the last step.
var errDone = errors.New("the demo is over")

// Config configures a demo.
type Config struct {
	// Penstock is the path of the binary to run; Env is added to its environment.
	Penstock string
	Env      []string
	// Typed is the binary's name in the shown commands.
	Typed string
	// Envoy is the version to show.
	Envoy string
	// Keep leaves everything running after the last step, until the context ends.
	Keep bool
	// Out receives the output; Colour adds ANSI colours.
	Out    io.Writer
	Colour bool
	// Ask reads JSON from the penstock that serves a state folder.
	Ask func(ctx context.Context, state, path string, into any) error
}

// Run runs the demo. It returns ErrFailed if a step failed, and the context's error if it ended
// before the last step. When Run returns, all processes have ended.
func Run(ctx context.Context, cfg Config) (err error) {
	s, err := newStage(cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	p := &page{w: cfg.Out, colour: cfg.Colour}
	group, running := errgroup.WithContext(ctx)
	group.Go(func() error { return s.Run(running) })
	group.Go(func() error {
		failed := s.runSteps(running, p)
		if cfg.Keep && (failed == nil || errors.Is(failed, ErrFailed)) {
			s.keepRunning(running, p)
		}
		if failed == nil {
			return errDone
		}
		return failed
	})
	if err = group.Wait(); errors.Is(err, errDone) {
		err = nil
	}
	return err
}

func (s *stage) runSteps(ctx context.Context, p *page) error {
	began := time.Now()
	if err := s.waitReady(ctx, p); err != nil {
		return s.reportFailure(ctx, p, err)
	}
	steps := allSteps()
	for i, step := range steps {
		p.title(i+1, step.title)
		p.text(step.intro)
		result, err := s.runStep(ctx, p, step)
		if err != nil {
			return s.reportFailure(ctx, p, err)
		}
		p.ok(result)
	}
	p.gap()
	p.line("%s",
		p.paint(bold,
			fmt.Sprintf("All %d steps went as promised, in %.0f s.", len(steps), time.Since(began).Seconds())))
	if !s.cfg.Keep {
		p.text("To try it yourself: " + s.cfg.Typed + " demo --keep")
	}
	return nil
}

// reportFailure prints the error of a step, unless the step failed because the demo ends.
func (s *stage) reportFailure(ctx context.Context, p *page, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	p.failed(err)
	for _, c := range []*cluster{s.here, s.east} {
		p.line("   output of penstock in cluster %s:\n%s", c.name, c.output())
	}
	return ErrFailed
}

// waitReady waits for both gateways, and prints what runs.
func (s *stage) waitReady(ctx context.Context, p *page) error {
	began := time.Now()
	p.line("%s", p.paint(bold, "Penstock demo"))
	p.text("Two clusters on this machine, each a penstock process with an Envoy " + s.cfg.Envoy +
		", and eight simulated model servers. All requests are real HTTP, on loopback.")
	here, err := s.here.served(ctx)
	if err != nil {
		return err
	}
	east, err := s.east.served(ctx)
	if err != nil {
		return err
	}
	p.gap()
	p.line("   here  %s   pool llama: %s %s   pool qwen: %s %s   pool gemma: %s %s", here, p.server("llama-1"),
		p.server("llama-2"), p.server("qwen-1"), p.server("qwen-2"), p.server("gemma-1"), p.server("gemma-2"))
	p.line("   east  %s   pool llama: %s %s", east, p.server("east-llama-1"), p.server("east-llama-2"))
	p.gap()
	p.command("GW=" + here + "   STATE=" + s.here.state)
	p.ok(fmt.Sprintf("both gateways serve, after %.1f s", time.Since(began).Seconds()))
	return nil
}

// runStep applies a step's YAML, and runs the step.
func (s *stage) runStep(ctx context.Context, p *page, step step) (string, error) {
	if step.file != "" {
		text, note := "", "applied before the start"
		var err error
		if step.prefix == "" {
			text, err = render(step.file, s.ports)
		} else {
			var took time.Duration
			text, took, err = s.apply(ctx, step.file, step.prefix)
			note = fmt.Sprintf("saved, and in effect %d ms later", max(1, took.Milliseconds()))
		}
		if err != nil {
			return "", err
		}
		p.yaml(step.file, note, excerpt(text))
	}
	return step.run(ctx, s, p, step.prefix)
}

// keepRunning prints commands to try, and waits until ctx ends. If the gateway does not serve, it
// returns at once.
func (s *stage) keepRunning(ctx context.Context, p *page) {
	if !s.here.serves() {
		return
	}
	p.gap()
	p.line("%s", p.paint(bold, "The demo keeps running. In another terminal:"))
	p.command("GW=" + s.here.url + "   STATE=" + s.here.state)
	p.command("ask() { curl -sN $GW$1" + completions + " -d '" + question("llama", "Hello").json() + "'; }")
	for _, step := range allSteps() {
		if step.prefix != "" {
			p.command("ask " + step.prefix)
		}
	}
	p.command("for i in 1 2 3 4 5 6 7 8 9; do ask /spill & done; wait")
	p.command(s.cfg.Typed + " explain $GW/split" + completions + " -X POST --state $STATE")
	p.command(s.cfg.Typed + " status --state $STATE")
	p.gap()
	p.text(
		"Edit a file (for example, the weights in split.yaml) and see the change take effect, or make one invalid " +
			"and read the finding below:")
	for _, step := range allSteps() {
		if step.file != "" {
			p.line("     %s", s.file(step.file))
		}
	}
	p.line("   Ctrl-C ends it and removes these files.")
	p.gap()
	s.here.followTo(p.w)
	s.east.followTo(p.w)
	<-ctx.Done()
}
