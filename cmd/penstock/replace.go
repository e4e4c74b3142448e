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
	// yieldTimeout bounds how long running ext_proc calls may end, while new requests wait. Envoy
	// repeats a call that is cut before its response.
	yieldTimeout = 300 * time.Millisecond
	// flushTimeout bounds how long the app may write its buffers.
	flushTimeout = 2 * time.Second
)

// replacement executes a new penstock in this process at SIGUSR2.
type replacement struct {
	program string
	signals chan os.Signal
	earlier *replace.State // nil if this program replaced no other
}

// prepareReplacement inherits a replaced program's sockets and Envoys. It must run early, because
// an unhandled SIGUSR2 ends the process.
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

// answerCheck runs in the new program before the replacement, and checks the flags and the files in
// them.
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

type replaceable struct {
	app     *app.App
	envoys  *supervisor.Supervisor
	thread  *supervisor.Thread
	stop    func() // ends the app, not the Envoys
	stopped chan struct{}
	flush   func()
	log     *slog.Logger
}

// run runs the app until ctx ends or stop is called.
func (r *replaceable) run(ctx context.Context, group *errgroup.Group) {
	ctx, r.stop = context.WithCancel(ctx)
	r.stopped = make(chan struct{})
	group.Go(func() error {
		defer close(r.stopped)
		defer r.stop()
		return r.app.Run(ctx)
	})
}

// replaceOnSignal replaces this program at each signal, and returns when ctx ends.
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
	s.sockets.Drop() // close inherited sockets that the app has not taken
	for attempt := 1; ; attempt++ {
		select {
		case <-ctx.Done():
			return nil
		case <-s.replacement.signals:
		}
		err := s.replace(ctx, p)
		if errors.As(err, new(notReplaced)) {
			// The attempt number differs, so that repeats does not drop the message.
			p.log.Error("penstock is not replaced, and runs on", "error", err, "attempt", attempt)
			continue
		}
		if err != nil || ctx.Err() != nil {
			return err
		}
	}
}

// notReplaced is an error after which this program continues unchanged.
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
		if ctx.Err() != nil { // SIGTERM has arrived meanwhile
			return nil
		}
		return fmt.Errorf("execute penstock %s: %w", version, next.Execute(r.program))
	})
}

// report returns a line about a replacement; "" if none took place.
func (r *replacement) report() string {
	if r == nil || r.earlier == nil {
		return ""
	}
	return fmt.Sprintf("replaced penstock %s by %s in place; Envoys kept: %d", r.earlier.Version, release.Version(),
		len(r.earlier.Envoys))
}
