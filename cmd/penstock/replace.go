package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/penstock-project/penstock/cmd/penstock/internal/app"
	"github.com/penstock-project/penstock/cmd/penstock/internal/replace"
	"github.com/penstock-project/penstock/manifests/release"
	"github.com/penstock-project/penstock/xds/admission/ports"
	"github.com/penstock-project/penstock/xds/supervisor"
)

const (
	// yieldTimeout bounds how long calls to the picker may end once it accepts no others: all other
	// requests wait meanwhile. Envoy makes a call again that is cut before its answer.
	yieldTimeout = 300 * time.Millisecond
	// flushTimeout bounds how long parts of this program write what they hold.
	flushTimeout = 2 * time.Second
)

// replacement executes a new program in this process at SIGUSR2.
type replacement struct {
	program string
	signals chan os.Signal
	earlier *replace.State // nil: this program has replaced no other
}

// prepareReplacement prepares the replacement of this program, as early as possible.
func (s *service) prepareReplacement() (err error) {
	r := &replacement{signals: make(chan os.Signal, 1)}
	signal.Notify(r.signals, syscall.SIGUSR2)
	r.earlier = replace.Inherit()
	var inherited map[string][]int
	if r.earlier != nil {
		inherited = r.earlier.Sockets
	}
	s.sockets, s.replacement = ports.NewSockets(inherited), r
	r.program, err = replace.Program()
	return err
}

func (r *replacement) kept() []supervisor.Kept {
	if r == nil || r.earlier == nil {
		return nil
	}
	return r.earlier.Envoys
}

// answerCheck checks the flags, and what they name, for a penstock that this one may replace.
func (s *service) answerCheck(cmd *cobra.Command) error {
	_, log := s.logger(cmd)
	_, credentials := s.secure.credentials()
	_, usage := s.usageURL()
	_, hosts := s.fetch()
	if err := errors.Join(s.stop.check(), log, credentials, usage, hosts, s.exist()); err != nil {
		return err
	}
	return replace.Answer(cmd.OutOrStdout(), release.Version())
}

// replaceable are the parts of penstock up that a replacement stops, or keeps.
type replaceable struct {
	app     *app.App
	envoys  *supervisor.Supervisor
	thread  *supervisor.Thread
	stop    func() // ends the app, and leaves Envoys
	stopped chan struct{}
	flush   func()
	log     *slog.Logger
}

// run runs the app until ctx ends, or until it is stopped.
func (r *replaceable) run(ctx context.Context, group *errgroup.Group) {
	ctx, r.stop = context.WithCancel(ctx)
	r.stopped = make(chan struct{})
	group.Go(func() error {
		defer close(r.stopped)
		defer r.stop()
		return r.app.Run(ctx)
	})
}

// replaceOnSignal returns when ctx ends.
func (s *service) replaceOnSignal(ctx context.Context, p replaceable) error {
	if s.replacement == nil {
		return nil
	}
	if p.app.After(ctx, 0) != nil {
		return nil
	}
	if s.replacement.earlier != nil {
		p.log.Info("replaced in place", "gap", time.Since(s.replacement.earlier.Began).Round(time.Millisecond))
	}
	s.sockets.Drop() // the app has taken its own
	for attempt := 1; ; attempt++ {
		select {
		case <-ctx.Done():
			return nil
		case <-s.replacement.signals:
		}
		err := s.replace(ctx, p)
		if errors.As(err, new(notReplaced)) {
			// Each signal has a result. The number keeps the log from dropping it as a repetition.
			p.log.Error("penstock is not replaced, and runs on", "error", err, "attempt", attempt)
			continue
		}
		if err != nil || ctx.Err() != nil {
			return err
		}
	}
}

// notReplaced is why a replacement has had no effect.
type notReplaced struct{ error }

func (s *service) replace(ctx context.Context, p replaceable) error {
	r := s.replacement
	if s.temporary {
		return notReplaced{errors.New("the state folder takes no files: make it writable, and start penstock again")}
	}
	version, err := replace.Check(ctx, r.program)
	if ctx.Err() != nil {
		return nil
	}
	if err != nil {
		return notReplaced{err}
	}
	wait, cancel := context.WithTimeout(ctx, s.stop.timeout)
	defer cancel()
	if n := p.app.Unwatched(wait); n > 0 && ctx.Err() == nil {
		p.log.Warn("requests under AccessPolicies with revoke: Immediately end with this program, because they took "+
			"longer than --stop-timeout", "requests", n)
	}
	if ctx.Err() != nil {
		return nil
	}
	next := replace.State{Version: release.Version()}
	if next.Sockets, err = s.sockets.Keep(); err != nil {
		return notReplaced{err}
	}
	if next.Envoys, err = p.envoys.Keep(); err != nil {
		return notReplaced{err}
	}
	p.app.Yield(yieldTimeout)
	p.stop()
	select {
	case <-p.stopped:
	case <-time.After(flushTimeout):
	}
	p.flush()
	return p.thread.Do(func() error {
		if ctx.Err() != nil { // SIGTERM came meanwhile
			return nil
		}
		return fmt.Errorf("execute penstock %s: %w", version, next.Execute(r.program))
	})
}

// report returns the line of a program that has replaced another one.
func (r *replacement) report() string {
	if r == nil || r.earlier == nil {
		return ""
	}
	return fmt.Sprintf("replaced penstock %s by %s in place; Envoys kept: %d", r.earlier.Version, release.Version(),
		len(r.earlier.Envoys))
}
