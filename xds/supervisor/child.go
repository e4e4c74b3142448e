package supervisor

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"
)

type child struct {
	pid    int
	ended  chan struct{}
	reason string
	log    *logWriter
	stderr *os.File // the pipe's end that log reads
	read   chan struct{}
}

func (e *Envoy) args() []string {
	return append([]string{
		"--config-path", e.config,
		"--config-yaml", e.admin.bootstrap(), // merged over the bootstrap file
		"--log-level", e.cfg.LogLevel,
		"--log-format", logFormat,
		"--log-format-escaped",
	}, e.cfg.Args...)
}

// Envoy gets a separate process group: an interrupt at the terminal then reaches only the parent
// process, which drains Envoy.
// thread may be nil: then the kernel ends Envoy with the thread of the caller.
func (e *Envoy) start(thread *Thread) (*child, error) {
	cmd := exec.Command(e.cfg.Envoy, e.args()...)
	cmd.SysProcAttr = ProcessAttributes(syscall.SIGKILL)

	stderr, out, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer func() { _ = out.Close() }()
	cmd.Stderr = out
	start := cmd.Start
	if thread != nil {
		start = func() error { return thread.Do(cmd.Start) }
	}
	if err := start(); err != nil {
		return nil, errors.Join(err, stderr.Close())
	}
	return e.follow(cmd.Process, stderr, time.Time{}), nil
}

// follow reads the log of a process, which is a child of this one, and waits for its end.
func (e *Envoy) follow(process *os.Process, stderr *os.File, adopted time.Time) *child {
	c := &child{pid: process.Pid, log: &logWriter{log: e.log, adopted: adopted}, stderr: stderr,
		ended: make(chan struct{}), read: make(chan struct{})}
	go func() {
		defer close(c.read)
		_, _ = io.Copy(c.log, stderr)
	}()
	go func() {
		defer close(c.ended)
		state, err := process.Wait()
		// A grandchild that keeps the pipe open must not block the end.
		_ = stderr.SetReadDeadline(time.Now().Add(time.Second))
		<-c.read
		_ = stderr.Close()
		c.reason = describe(state, err)
		c.log.flush()
		if c.log.lastError != "" {
			c.reason += ": " + c.log.lastError
		}
	}()
	return c
}

func describe(state *os.ProcessState, err error) string {
	if err != nil {
		return err.Error()
	}
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return "signal " + status.Signal().String()
	}
	return fmt.Sprintf("exit status %d", state.ExitCode())
}

func (c *child) terminate() { c.signal(syscall.SIGTERM) }

func (c *child) killGroup() { c.signal(syscall.SIGKILL) }

func (c *child) signal(s syscall.Signal) {
	if err := syscall.Kill(-c.pid, s); errors.Is(err, syscall.EPERM) && s == syscall.SIGKILL {
		_ = syscall.Kill(c.pid, s) // macOS returns EPERM for a group with a zombie
	}
}
