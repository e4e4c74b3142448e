package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/penstock-project/penstock/cmd/penstock/internal/app"
	"github.com/penstock-project/penstock/cmd/penstock/internal/deployments"
	"github.com/penstock-project/penstock/cmd/penstock/internal/engines"
	"github.com/penstock-project/penstock/discovery/objectid"
)

// ranFiles are the flags of commands about the model servers of penstock up or run.
func ranFiles(cmd *cobra.Command, s *files) {
	s.flags(cmd, "default: the folder of penstock run")
	beforeRun(cmd, func() (err error) {
		if len(s.paths) == 0 && s.state == "" {
			s.paths = make([]string, 1)
			s.paths[0], err = runFolder()
		}
		return err
	})
}

func newLogs() *cobra.Command {
	var s files
	var replica int
	var follow bool
	cmd := &cobra.Command{
		Use:   "logs NAME",
		Short: "Print the log of a model server that penstock up or run has started",
		Long: `Print the log of a model server of the ModelDeployment NAME, or NAMESPACE/NAME, that penstock up or run
has started on this machine.`,
		Example: `  penstock logs qwen
  penstock logs qwen -f ./config --replica 1 --follow`,
		Args: takes(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir, err := s.stateDir()
			if err != nil {
				return err
			}
			id := args[0]
			if !strings.Contains(id, "/") {
				id = objectid.Join(runNamespace, id)
			}
			path := engines.LogFile(app.Engines(dir), deployments.ProcessName(id, replica))
			return printLog(cmd.Context(), cmd.OutOrStdout(), path, id, follow)
		},
	}
	ranFiles(cmd, &s)
	cmd.Flags().IntVar(&replica, "replica", 0, "number of the server, from 0 (default 0)")
	cmd.Flags().BoolVar(&follow, "follow", false, "print further lines until interrupted (default false)")
	return cmd
}

const logPoll = 200 * time.Millisecond

func printLog(ctx context.Context, out io.Writer, path, id string, follow bool) error {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("ModelDeployment %s has no such server here: see penstock status, and give the -f and "+
			"--state that penstock up runs with", id)
	}
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	again := time.NewTicker(logPoll)
	defer again.Stop()
	for {
		n, err := io.Copy(out, f)
		if err != nil || !follow {
			return err
		}
		if info, err := f.Stat(); n == 0 && err == nil { // a full log is truncated
			if at, err := f.Seek(0, io.SeekCurrent); err == nil && at > info.Size() {
				_, _ = f.Seek(0, io.SeekStart)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-again.C:
		}
	}
}
