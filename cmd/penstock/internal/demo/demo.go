package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"golang.org/x/sync/errgroup"
)

// ErrFailed says that a step did not go as promised. What was expected and what was seen has been printed.
var ErrFailed = errors.New("the demo failed")

// errDone ends what runs when the demo is over.
var errDone = errors.New("the demo is over")

// Config is what a demo needs.
type Config struct {
	// Penstock is the binary that is run, and Env is added to its environment.
	Penstock string
	Env      []string
	// Typed is how a person runs that binary.
	Typed string
	// Envoy is its version, to be told.
	Envoy string
	// Keep leaves everything up after the last step, until the context ends.
	Keep bool
	// Out is where the story goes; Colour has it in colours.
	Out    io.Writer
	Colour bool
	// Ask reads JSON from the penstock that serves a state folder.
	Ask func(ctx context.Context, state, path string, into any) error
}

// Run runs the demo. It returns ErrFailed if a step failed, and the context's error if that ended before the last step.
// Nothing runs any more when it returns.
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
		failed := s.play(running, p)
		if cfg.Keep && (failed == nil || errors.Is(failed, ErrFailed)) {
			s.keep(running, p)
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

// play runs the steps.
func (s *stage) play(ctx context.Context, p *page) error {
	began := time.Now()
	if err := s.raise(ctx, p); err != nil {
		return s.verdict(ctx, p, err)
	}
	steps := story()
	for i, step := range steps {
		p.title(i+1, step.title)
		p.say(step.story)
		seen, err := s.perform(ctx, p, step)
		if err != nil {
			return s.verdict(ctx, p, err)
		}
		p.ok(seen)
	}
	p.gap()
	p.line("%s", p.paint(bold, fmt.Sprintf("All %d steps went as promised, in %.0f s.", len(steps), time.Since(began).Seconds())))
	if !s.cfg.Keep {
		p.say("To try things yourself: " + s.cfg.Typed + " demo --keep")
	}
	return nil
}

// verdict tells of a failed step, unless it failed because the demo ends.
func (s *stage) verdict(ctx context.Context, p *page, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	p.failed(err)
	for _, c := range []*cluster{s.here, s.east} {
		p.line("   penstock of cluster %s said:\n%s", c.name, c.said())
	}
	return ErrFailed
}

// raise waits for both gateways, and says what there is.
func (s *stage) raise(ctx context.Context, p *page) error {
	began := time.Now()
	p.line("%s", p.paint(bold, "Penstock demo"))
	p.say("Two clusters on this machine, each a penstock with an Envoy " + s.cfg.Envoy + ", and six simulated model servers. All of it real HTTP, on loopback.")
	here, err := s.here.served(ctx)
	if err != nil {
		return err
	}
	east, err := s.east.served(ctx)
	if err != nil {
		return err
	}
	p.gap()
	p.line("   here  %s   pool llama: %s %s   pool qwen: %s %s", here, p.server("llama-1"), p.server("llama-2"), p.server("qwen-1"), p.server("qwen-2"))
	p.line("   east  %s   pool llama: %s %s", east, p.server("east-llama-1"), p.server("east-llama-2"))
	p.gap()
	p.command("GW=" + here + "   STATE=" + s.here.state)
	p.ok(fmt.Sprintf("both serve, after %.1f s", time.Since(began).Seconds()))
	return nil
}

// perform puts a step's YAML in place, and runs it.
func (s *stage) perform(ctx context.Context, p *page, step step) (string, error) {
	if step.file != "" {
		text, note := "", "there from the beginning"
		var err error
		if step.prefix == "" {
			text, err = render(step.file, s.ports)
		} else {
			var took time.Duration
			text, took, err = s.drop(ctx, step.file, step.prefix)
			note = fmt.Sprintf("saved, and live %d ms later", max(1, took.Milliseconds()))
		}
		if err != nil {
			return "", err
		}
		p.yaml(step.file, note, excerpt(text))
	}
	return step.run(ctx, s, p, step.prefix)
}

// keep leaves everything up until ctx ends, and says what a person could try. If not even the gateway came up, it returns
// at once.
func (s *stage) keep(ctx context.Context, p *page) {
	if !s.here.up() {
		return
	}
	p.gap()
	p.line("%s", p.paint(bold, "It stays up. In another terminal:"))
	p.command("GW=" + s.here.url + "   STATE=" + s.here.state)
	p.command("ask() { curl -sN $GW$1" + completions + " -d '" + question("llama", "Hello").json() + "'; }")
	for _, step := range story() {
		if step.prefix != "" {
			p.command("ask " + step.prefix)
		}
	}
	p.command("for i in 1 2 3 4 5 6 7 8 9; do ask /spill & done; wait")
	p.command(s.cfg.Typed + " explain $GW/split" + completions + " -X POST --state $STATE")
	p.command(s.cfg.Typed + " status --state $STATE")
	p.gap()
	p.say("Edit a file and see it live (say, the weights in split.yaml), or break one and read below what penstock says of it:")
	for _, step := range story() {
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
