package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/penstock-project/penstock/cmd/penstock/internal/app"
	"github.com/penstock-project/penstock/discovery/engine/processes"
)

func newDown() *cobra.Command {
	var s files
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "down",
		Short: "Stop penstock up or run, and all model servers that it has started",
		Long: `Stop the penstock up or run that serves a folder, as Ctrl-C does, and all model servers that it has
started. Model servers that a process has left, because it was killed or got SIGTERM, are stopped, too. Files stay as
they are, but the files of penstock run are removed.`,
		Example: `  penstock down
  penstock down -f ./config`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			return s.down(ctx, cmd)
		},
	}
	ranFiles(cmd, &s)
	cmd.Flags().DurationVar(&timeout, "timeout", 2*time.Minute, "longest time to wait for their end")
	return cmd
}

func (s *files) down(ctx context.Context, cmd *cobra.Command) error {
	state, err := s.stateDir()
	if err != nil {
		return err
	}
	dir := app.Engines(state)
	// Processes that start model servers make this file. It is missing if the folder was removed,
	// although such a process may still run.
	if _, err := os.Stat(filepath.Join(dir, "lock")); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("no process has started servers with the state folder %s: give the -f and --state that "+
			"penstock up runs with; if the folder was removed meanwhile, end that process with Ctrl-C, or kill -INT",
			state)
	}
	log := slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	asked := false
	for again := time.NewTicker(logPoll); ; {
		supervisor, err := processes.Open(dir, log)
		var locked *processes.LockedError
		switch {
		case err == nil:
			again.Stop()
			defer supervisor.Close()
			if err := supervisor.Down(ctx); err != nil {
				return err
			}
			return s.forget()
		case !errors.As(err, &locked) || locked.PID == 0:
			return err
		case !asked:
			asked = true
			if err := syscall.Kill(locked.PID, syscall.SIGINT); err != nil {
				return fmt.Errorf("process %d serves the folder: %w", locked.PID, err)
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("process %d has not ended: %w", locked.PID, ctx.Err())
		case <-again.C:
		}
	}
}

// forget removes penstock run's ModelDeployments, if -f names penstock run's folder alone.
func (s *files) forget() error {
	folder, err := runFolder()
	if err != nil || len(s.paths) != 1 || s.paths[0] != folder {
		return err
	}
	return removeDeployments(folder)
}
