package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/pflag"
)

type stopFlags struct{ timeout time.Duration }

func (s *stopFlags) flags(f *pflag.FlagSet) {
	f.DurationVar(&s.timeout, "stop-timeout", 30*time.Second,
		"how long requests in flight may go on after SIGTERM or Ctrl-C; a second one ends penstock at once")
}

func (s *stopFlags) check() error {
	if s.timeout <= 0 {
		return fmt.Errorf("--stop-timeout %s: write a duration above 0, such as 30s", s.timeout)
	}
	return nil
}

// announce prints a line when ctx ends, and then ends the process at a second signal.
func (s *stopFlags) announce(ctx context.Context, out io.Writer, now func()) (end func()) {
	done := make(chan struct{})
	unregister := context.AfterFunc(ctx, func() {
		again := make(chan os.Signal, 1)
		signal.Notify(again, os.Interrupt, syscall.SIGTERM)
		defer signal.Stop(again)
		fmt.Fprintf(out, "stopping: requests in flight have %s; a second Ctrl-C ends penstock at once\n", s.timeout)
		select {
		case <-again:
			now()
			os.Exit(exitInterrupted)
		case <-done:
		}
	})
	return func() {
		unregister()
		close(done)
	}
}

// exitInterrupted is the exit code after a second signal, as shells define it.
const exitInterrupted = 128 + int(syscall.SIGINT)
