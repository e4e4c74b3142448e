package supervisor

import (
	"errors"
	"fmt"
	"os/exec"
	"syscall"
	"time"
)

// child is one Envoy process, from its start to its end.
type child struct {
	pid    int
	ended  chan struct{} // closed when the process is gone and reaped
	reason string        // why it ended; read it after ended
	log    *logWriter    // takes its complaints
}

// start starts Envoy in a process group of its own: an interrupt typed at the terminal reaches us alone, and we drain.
func (e *Envoy) start() (*child, error) {
	cmd := exec.Command(e.cfg.Envoy, append([]string{
		"--config-path", e.config,
		"--config-yaml", e.admin.bootstrap(), // merged over the file
		"--log-level", e.cfg.LogLevel,
		"--log-format", logFormat,
		"--log-format-escaped",
	}, e.cfg.Args...)...)
	cmd.SysProcAttr = processAttributes()
	cmd.Stdout = e.cfg.AccessLog
	complaints := &logWriter{log: e.log}
	cmd.Stderr = complaints
	cmd.WaitDelay = time.Second // a grandchild that kept our pipe must not hold Wait
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	c := &child{pid: cmd.Process.Pid, ended: make(chan struct{}), log: complaints}
	go func() {
		defer close(c.ended)
		c.reason = describe(cmd.Wait())
		complaints.flush()
		if complaints.last != "" {
			c.reason += ": " + complaints.last
		}
	}()
	return c, nil
}

// describe puts the end of a process into words.
func describe(err error) string {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return "it exited by itself"
	case errors.As(err, &exit):
		if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
			return "signal " + status.Signal().String()
		}
		return fmt.Sprintf("exit status %d", exit.ExitCode())
	default:
		return err.Error()
	}
}

// terminate asks the process to end.
func (c *child) terminate() { c.signal(syscall.SIGTERM) }

// killGroup ends the process and everything it started.
func (c *child) killGroup() { c.signal(syscall.SIGKILL) }

// signal reaches the whole group. That the group is gone already is what the caller wants; there is no other error.
func (c *child) signal(s syscall.Signal) {
	if err := syscall.Kill(-c.pid, s); errors.Is(err, syscall.EPERM) && s == syscall.SIGKILL {
		_ = syscall.Kill(c.pid, s) // macOS answers EPERM for a group in which a member is a zombie
	}
}
