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

	"github.com/penstock-project/penstock/conformance/promises/process"
)

func measureLoss(ctx context.Context, c config, out report) error {
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
	return printed(ctx, exec.Command(harness, "-penstock", penstock), out)
}

func measureMembers(ctx context.Context, _ config, out report) error {
	return printed(ctx, exec.Command("go", "test", "-v", "-count=1", "-timeout", "90m", "-tags", "lab",
		"./promises/members", "-figures"), out)
}

func measureHostileMembers(ctx context.Context, _ config, out report) error {
	return printed(ctx, exec.Command("go", "test", "-v", "-count=1", "-timeout", "60m", "./promises/attacks",
		"-run", "ClusterSet_(HostileMember|RequestsOfAMember)|Hub_Millions", "-figures"), out)
}

func printed(ctx context.Context, cmd *exec.Cmd, out report) error {
	cmd.Stderr, cmd.SysProcAttr = os.Stderr, process.Attributes()
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Signal(os.Interrupt) })
	defer stop()
	figures := 0
	lines := bufio.NewScanner(pipe)
	for lines.Scan() {
		var f output
		if json.Unmarshal(lines.Bytes(), &f) != nil || f.Name == "" {
			fmt.Fprintln(os.Stderr, lines.Text())
			continue
		}
		name, part, _ := strings.Cut(f.Name, ".")
		out(name, part, f.Value)
		figures++
	}
	err = cmd.Wait()
	if figures > 0 && lines.Err() == nil {
		return nil // a failed test is no error: its figures report the failures
	}
	return errors.Join(errors.New("the harness printed no figures"), err, lines.Err())
}
