//go:build linux

package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/penstock-project/penstock/conformance/lab/network"
)

const grace = 5 * time.Second

type program struct {
	name string
	path string
	args []string
	env  []string // in addition to PATH
}

// run runs the program until ctx is done. An earlier end is an error.
func (p program) run(ctx context.Context, ns *network.Namespace, logs string) error {
	name := filepath.Join(logs, p.name+".log")
	log, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return fmt.Errorf("%s: %w", p.name, err)
	}
	defer log.Close()
	cmd := exec.CommandContext(ctx, p.path)
	cmd.Args = append([]string{p.name}, p.args...)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH")}, p.env...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = grace
	if err := ns.Do(cmd.Start); err != nil {
		return fmt.Errorf("start %s: %w", p.name, err)
	}
	err = cmd.Wait()
	if ctx.Err() != nil {
		return nil
	}
	if err == nil {
		err = errors.New("it ended")
	}
	return fmt.Errorf("%s: %w; the end of %s:\n%s", p.name, err, name, tail(name))
}

func tail(name string) string {
	const lines = 8
	raw, err := os.ReadFile(name)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(string(bytes.TrimSpace(raw)), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
