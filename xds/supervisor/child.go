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
	stderr *os.File // read end of Envoy's stderr
	read   chan struct{}
}

func (e *Envoy) args() []string {
	return append([]string{
		"--config-path", e.config,
		"--config-yaml", e.admin.bootstrap(),
		"--log-level", e.cfg.LogLevel,
		"--log-format", logFormat,
		"--log-format-escaped",
	}, e.cfg.Args...)
}

// start runs Envoy in its own process group, so that an interrupt at the terminal reaches only the
// parent, which drains Envoy. The kernel kills Envoy when the thread that started it ends. If
// thread is nil, this is the caller's thread.
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
		// A grandchild may keep the pipe open.
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
