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

// measureLoss runs the zero-loss harness, which prints its progress.
func measureLoss(ctx context.Context, c config, out report) error { return zeroloss(ctx, c, out) }

// measureAbsence lets it start Envoys without a control plane.
func measureAbsence(ctx context.Context, c config, out report) error {
	return zeroloss(ctx, c, out, "-absences", "5")
}

// zeroloss builds and runs the harness, and reports its figures.
func zeroloss(ctx context.Context, c config, out report, args ...string) error {
	dir, err := os.MkdirTemp("", "zl")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	harness := filepath.Join(dir, "zeroloss")
	if text, err := exec.CommandContext(ctx, "go", "build", "-o", harness, "./promises/zeroloss").
		CombinedOutput(); err != nil {
		return fmt.Errorf("build zeroloss: %w\n%s", err, text)
	}
	penstock, err := filepath.Abs(c.penstock)
	if err != nil {
		return err
	}
	return loss(ctx, exec.Command(harness, append([]string{"-penstock", penstock}, args...)...), c.envoy, out)
}

// measureMembers runs the experiments with three clusters. They need a lab: where none starts,
// there are no figures.
func measureMembers(ctx context.Context, c config, out report) error {
	return loss(ctx,
		exec.Command("go", "test", "-v", "-count=1", "-timeout", "90m", "-tags", "lab", "./promises/members",
			"-figures"), c.envoy, out)
}

// measureHostileMembers runs the attacks of members, which measure what they cost.
func measureHostileMembers(ctx context.Context, c config, out report) error {
	return loss(ctx, exec.Command("go", "test", "-v", "-count=1", "-timeout", "60m", "./promises/attacks",
		"-run", "ClusterSet_(HostileMember|RequestsOfAMember)|Hub_Millions", "-figures"), c.envoy, out)
}

// loss runs a command that prints figures and, if requests failed, how to repeat the run.
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
		return nil // failed requests are a figure, not an error
	}
	return errors.Join(errors.New("the harness printed no figures"), err, lines.Err())
}
