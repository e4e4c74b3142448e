package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// measureLoss runs the zero-loss harness, which says meanwhile what it does.
func measureLoss(ctx context.Context, c config, out report) error { return zeroloss(ctx, c, out) }

// measureAbsence has it start Envoys while no control plane is there.
func measureAbsence(ctx context.Context, c config, out report) error {
	return zeroloss(ctx, c, out, "-absences", "5")
}

// zeroloss builds and runs that harness, and passes its figures on.
func zeroloss(ctx context.Context, c config, out report, args ...string) error {
	dir, err := os.MkdirTemp("", "zl")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	harness := filepath.Join(dir, "zeroloss")
	if said, err := exec.CommandContext(ctx, "go", "build", "-o", harness, "./promises/zeroloss").CombinedOutput(); err != nil {
		return fmt.Errorf("build zeroloss: %w\n%s", err, said)
	}
	penstock, err := filepath.Abs(c.penstock)
	if err != nil {
		return err
	}
	return loss(ctx, exec.Command(harness, append([]string{"-penstock", penstock}, args...)...), c.envoy, out)
}

// loss runs a command that prints figures and, if requests failed, how to see that again.
func loss(ctx context.Context, cmd *exec.Cmd, envoy string, out report) error {
	cmd.Env, cmd.Stderr, cmd.SysProcAttr = append(os.Environ(), "ENVOY="+envoy), os.Stderr, dieWithParent()
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Signal(os.Interrupt) })
	defer stop()
	given := 0
	lines := bufio.NewScanner(pipe)
	for lines.Scan() {
		var f output
		if json.Unmarshal(lines.Bytes(), &f) != nil || f.Name == "" {
			fmt.Fprintln(os.Stderr, lines.Text())
			continue
		}
		name, suffix, _ := strings.Cut(f.Name, ".")
		out(name, suffix, f.Value)
		given++
	}
	err = cmd.Wait()
	if given > 0 && lines.Err() == nil {
		return nil // that requests failed is a figure
	}
	return errors.Join(errors.New("the harness gave no figures"), err, lines.Err())
}
