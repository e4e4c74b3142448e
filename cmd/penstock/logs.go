package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/penstock-project/penstock/cmd/penstock/internal/app"
	"github.com/penstock-project/penstock/discovery/engine/controller"
	"github.com/penstock-project/penstock/discovery/engine/processes"
	"github.com/penstock-project/penstock/discovery/objectid"
)

// ranFiles adds the flags of commands about local model servers. Their default is penstock run's
// folder.
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
		Long: `Print the logs of the model servers of the ModelDeployment NAME, or NAMESPACE/NAME, that penstock up or
run has started on this machine. If several run, each line begins with the number of its server. If none runs, the
logs of the ones that have failed are printed.`,
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
			replicas := []int{replica}
			if !cmd.Flags().Changed("replica") {
				replicas = loggedReplicas(app.Engines(dir), id)
			}
			return printLogs(cmd, app.Engines(dir), id, replicas, follow)
		},
	}
	ranFiles(cmd, &s)
	cmd.Flags().IntVar(&replica, "replica", 0,
		"number of the server, as in penstock status (default: the servers that run)")
	cmd.Flags().BoolVar(&follow, "follow", false, "print further lines until interrupted (default false)")
	return cmd
}

// loggedReplicas returns the numbers of a deployment's running servers; if none runs, of all. A
// replaced server gets a new number.
func loggedReplicas(dir, id string) []int {
	recorded, _ := processes.List(dir) // an error leaves no records
	var runs, waits []int
	for _, r := range recorded {
		number, ok := strings.CutPrefix(r.Name, id+"/")
		n, err := strconv.Atoi(number)
		switch {
		case !ok || err != nil:
		case r.Runs:
			runs = append(runs, n)
		default:
			waits = append(waits, n)
		}
	}
	if len(runs) == 0 {
		runs = waits
	}
	if len(runs) == 0 {
		return []int{0}
	}
	slices.Sort(runs)
	return runs
}

func printLogs(cmd *cobra.Command, dir, id string, replicas []int, follow bool) error {
	logFile := func(n int) string { return processes.LogFile(dir, controller.ProcessName(id, n)) }
	if len(replicas) == 1 {
		return printLog(cmd.Context(), cmd.OutOrStdout(), logFile(replicas[0]), id, follow)
	}
	var group errgroup.Group
	if !follow {
		group.SetLimit(1)
	}
	var mu sync.Mutex
	for _, n := range replicas {
		group.Go(func() error {
			w := &numbered{mu: &mu, out: cmd.OutOrStdout(), prefix: fmt.Sprintf("%d | ", n)}
			err := printLog(cmd.Context(), w, logFile(n), id, follow)
			if len(w.rest) > 0 {
				_, _ = w.Write([]byte("\n"))
			}
			return err
		})
	}
	return group.Wait()
}

// numbered prefixes each line. All writers share out and mu.
type numbered struct {
	mu     *sync.Mutex
	out    io.Writer
	prefix string
	rest   []byte
}

// maxLogLine is the length in bytes at which a line is split.
const maxLogLine = 64 << 10

// Write implements io.Writer.
func (w *numbered) Write(p []byte) (int, error) {
	w.rest = append(w.rest, p...)
	var lines []byte
	for {
		end := bytes.IndexByte(w.rest, '\n')
		if end < 0 && len(w.rest) < maxLogLine {
			break
		}
		if end < 0 {
			end = maxLogLine - 1
			w.rest = slices.Insert(w.rest, end, '\n')
		}
		lines = append(append(lines, w.prefix...), w.rest[:end+1]...)
		w.rest = w.rest[end+1:]
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	_, err := w.out.Write(lines)
	return len(p), err
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
		if info, err := f.Stat(); n == 0 && err == nil { // a full log has been truncated
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
