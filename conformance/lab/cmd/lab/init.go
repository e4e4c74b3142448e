//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

// private is a folder on which a lab mounts a tmpfs in its mount namespace. Paths below it are
// short enough for sockets.
const private = "/run"

func newInit() *cobra.Command {
	return &cobra.Command{
		Use:    "init DIR",
		Short:  "PID 1 of a lab",
		Args:   cobra.ExactArgs(1),
		Hidden: true,
		RunE:   func(_ *cobra.Command, args []string) error { return initialize(args[0]) },
	}
}

func initialize(dir string) error {
	report := os.NewFile(readyFD, "ready")
	if err := mounts(); err != nil {
		fmt.Fprintf(report, "%v\x00", err)
		return err
	}
	watches()
	cmd := exec.Command("/proc/self/exe", "supervise", dir)
	cmd.Args[0] = "lab"
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.ExtraFiles = []*os.File{report, os.NewFile(lifelineFD, "lifeline")}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("supervisor: %w", err)
	}
	_ = report.Close() // the reader then gets EOF when the supervisor ends
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil {
			return fmt.Errorf("wait: %w", err)
		}
		if pid == cmd.Process.Pid {
			os.Exit(status.ExitStatus())
		}
	}
}

// watches raises the kernel's limit of inotify instances per user for good. Envoy crashes at the
// limit, and the default of 128 is too low for fifty pods.
func watches() {
	const file, enough = "/proc/sys/fs/inotify/max_user_instances", 8192
	text, err := os.ReadFile(file)
	if err != nil {
		return
	}
	if n, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil && n < enough {
		_ = os.WriteFile(file, []byte(strconv.Itoa(enough)), 0) // fails without root; small labs work anyway
	}
}

func mounts() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount /proc of the lab's own processes: %w", err)
	}
	if err := unix.Mount("lab", private, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755"); err != nil {
		return fmt.Errorf("mount %s: %w", private, err)
	}
	return nil
}
