package engines

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"syscall"
	"time"
)

// tokenName is the variable by which a process without a recorded ID is found.
const tokenName = "PENSTOCK_ENGINE"

// mark is how the processes of one engine are recognized: the token in their environment, or the
// log as their standard output or error.
type mark struct{ token, log string }

// live is a process that runs, started by this supervisor or by an earlier one.
type live struct {
	pid      int
	identity string
	cmd      *exec.Cmd // nil: adopted
	ended    <-chan struct{}
	release  func() // ends the watch
}

// launch starts a process in a session of its own, whose output goes directly to the log.
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
	// The process is this one's child, so its ID is not reused before Wait.
	var ok bool
	if l.identity, ok = identity(l.pid); !ok {
		l.identity = boot() + "/0" // it has ended already; no process starts at the boot
	}
	l.ended, l.release = watch(l.pid, l.identity)
	return l, nil
}

// environment puts the token first, where it is found early. Later variables of a name take
// precedence in package exec.
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

// adopt watches a process of an earlier supervisor. It returns nil if the process has another
// identity or has ended. The watch starts before the check, so it belongs to the checked process.
func adopt(pid int, want string) *live {
	ended, release := watch(pid, want)
	if got, ok := identity(pid); !ok || got != want {
		release()
		_, _ = syscall.Wait4(pid, nil, syscall.WNOHANG, nil) // an earlier program of this process may have started it
		return nil
	}
	return &live{pid: pid, identity: want, ended: ended, release: release}
}

// signal signals the process group.
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

// leave ends the watch; the process runs on.
func (l *live) leave() {
	l.release()
	if l.cmd != nil {
		_ = l.cmd.Process.Release()
	}
}

// reap returns how an ended process ended. It kills what is left of its group before the process ID
// is free.
func (l *live) reap() string {
	defer l.release()
	if l.cmd == nil {
		var status syscall.WaitStatus
		// A supervisor of the same process started it, for example before a reload.
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

// sweep kills the workers that an ended engine left.
func sweep(m mark) {
	for _, f := range find([]mark{m})[0] {
		f.kill()
	}
}

// polled is watch where the kernel reports no end of other processes.
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
