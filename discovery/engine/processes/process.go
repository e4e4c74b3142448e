package processes

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"syscall"
	"time"
)

// tokenName is the variable with the token in an engine's environment.
const tokenName = "PENSTOCK_ENGINE"

// mark identifies an engine's processes: by the token in the environment, or the log as output.
type mark struct{ token, log string }

type live struct {
	pid      int
	identity string
	cmd      *exec.Cmd // nil: adopted
	ended    <-chan struct{}
	release  func() // ends the watch
}

// launch starts a process in its own session. Its output goes directly to the log.
func launch(p Process, m mark) (*live, error) {
	log, err := openLog(m.log)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()
	cmd := &exec.Cmd{
		Path: p.Command[0], Args: p.Command, Env: environment(p, m.token), Dir: p.Dir,
		Stdout: log, Stderr: log,
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	if cmd.Dir == "" {
		cmd.Dir = "/"
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	l := &live{pid: cmd.Process.Pid, cmd: cmd}
	// The process is a child of this one, so its ID is not reused before Wait.
	var ok bool
	if l.identity, ok = identity(l.pid); !ok {
		l.identity = boot() + "/0" // it has ended; this identity matches no process
	}
	l.ended, l.release = watch(l.pid, l.identity)
	return l, nil
}

// environment puts the token first, where find sees it. In package exec, later values take
// precedence.
func environment(p Process, token string) []string {
	env := []string{tokenName + "=" + token}
	for _, list := range [][]string{p.Inherited, p.Env} {
		for _, s := range list {
			if len(s) <= len(tokenName) || s[:len(tokenName)+1] != tokenName+"=" {
				env = append(env, s)
			}
		}
	}
	return env
}

// adopt watches a process of an earlier supervisor; nil: it has another identity, or has ended. The
// watch starts before the check, so it belongs to the checked process.
func adopt(pid int, want string) *live {
	ended, release := watch(pid, want)
	if got, ok := identity(pid); !ok || got != want {
		release()
		_, _ = syscall.Wait4(pid, nil, syscall.WNOHANG, nil) // reaps a child of an earlier program in this process
		return nil
	}
	return &live{pid: pid, identity: want, ended: ended, release: release}
}

func (l *live) signal(s syscall.Signal) {
	if l.cmd == nil {
		if got, ok := identity(l.pid); !ok || got != l.identity {
			return // the ID may belong to another process
		}
	}
	if err := syscall.Kill(-l.pid, s); err != nil && s == syscall.SIGKILL {
		_ = syscall.Kill(l.pid, s) // macOS returns EPERM for a group with a zombie
	}
}

func (l *live) leave() {
	l.release()
	if l.cmd != nil {
		_ = l.cmd.Process.Release()
	}
}

// reap returns how a process ended, and kills its group before the process ID is free.
func (l *live) reap() string {
	defer l.release()
	if l.cmd == nil {
		var status syscall.WaitStatus
		// The process is a child if a supervisor before a reload has started it.
		if pid, err := syscall.Wait4(l.pid, &status, syscall.WNOHANG, nil); err == nil && pid == l.pid {
			return describe(status)
		}
		return "it ended; only the penstock that started it could read its exit status"
	}
	_ = syscall.Kill(-l.pid, syscall.SIGKILL)
	err := l.cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return err.Error()
	}
	status, ok := l.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if !ok {
		return l.cmd.ProcessState.String()
	}
	return describe(status)
}

func describe(status syscall.WaitStatus) string {
	if status.Signaled() {
		return "signal " + status.Signal().String()
	}
	return fmt.Sprintf("exit status %d", status.ExitStatus())
}

func sweep(m mark) {
	for _, f := range find([]mark{m})[0] {
		f.kill()
	}
}

// polled is like watch, for systems that do not report the end of other processes.
func polled(pid int, want string, every time.Duration) (ended <-chan struct{}, release func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		for {
			if got, ok := identity(pid); !ok || got != want {
				close(done)
				return
			}
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
		}
	}()
	return done, cancel
}
