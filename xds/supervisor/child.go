package supervisor

import (
	"errors"
	"fmt"
	"os/exec"
	"syscall"
	"time"
)

type child struct {
	pid    int
	ended  chan struct{}
	reason string
	log    *logWriter
}

// Envoy gets a separate process group: an interrupt at the terminal then reaches only the parent
// process, which drains Envoy.
func (e *Envoy) start() (*child, error) {
	cmd := exec.Command(e.cfg.Envoy, append([]string{
		"--config-path", e.config,
		"--config-yaml", e.admin.bootstrap(), // merged over the bootstrap file
		"--log-level", e.cfg.LogLevel,
		"--log-format", logFormat,
		"--log-format-escaped",
	}, e.cfg.Args...)...)
	cmd.SysProcAttr = ProcessAttributes(syscall.SIGKILL)

	stderr := &logWriter{log: e.log}
	cmd.Stderr = stderr
	cmd.WaitDelay = time.Second // a grandchild that keeps the pipe open must not block Wait
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	c := &child{pid: cmd.Process.Pid, ended: make(chan struct{}), log: stderr}
	go func() {
		defer close(c.ended)
		c.reason = describe(cmd.Wait())
		stderr.flush()
		if stderr.lastError != "" {
			c.reason += ": " + stderr.lastError
		}
	}()
	return c, nil
}

func describe(err error) string {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return "exit status 0"
	case errors.As(err, &exit):
		if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
			return "signal " + status.Signal().String()
		}
		return fmt.Sprintf("exit status %d", exit.ExitCode())
	default:
		return err.Error()
	}
}

func (c *child) terminate() { c.signal(syscall.SIGTERM) }

func (c *child) killGroup() { c.signal(syscall.SIGKILL) }

func (c *child) signal(s syscall.Signal) {
	if err := syscall.Kill(-c.pid, s); errors.Is(err, syscall.EPERM) && s == syscall.SIGKILL {
		_ = syscall.Kill(c.pid, s) // macOS returns EPERM for a group with a zombie
	}
}
