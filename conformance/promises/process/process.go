package process

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/penstock-project/penstock/conformance/lab/retry"
)

// Process is a child with a name and a log file.
type Process struct {
	Name  string
	log   string
	cmd   *exec.Cmd
	ended chan struct{}
}

// Start runs a program. Its output is appended to a log file.
func Start(name, logPath, binary string, env []string, args ...string) (*Process, error) {
	logFile, err := os.OpenFile(logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	p := &Process{Name: name, log: logPath, cmd: exec.Command(binary, args...), ended: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = logFile, logFile
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.SysProcAttr = Attributes()
	began := make(chan error)
	go func() {
		runtime.LockOSThread() // Pdeathsig is sent when the thread that started the child ends
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		began <- err
		if err == nil {
			_ = p.cmd.Wait() // the exit status is in p.cmd.ProcessState
		}
		_ = logFile.Close()
		close(p.ended)
	}()
	if err := <-began; err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	return p, nil
}

// PID returns the process ID.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Signal sends a signal, which has no effect on an ended process.
func (p *Process) Signal(s syscall.Signal) { _ = p.cmd.Process.Signal(s) }

// Ended returns a channel that closes when the process has ended.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Running returns an error with the exit status and the end of the log once the process has ended.
func (p *Process) Running() error {
	select {
	case <-p.ended:
		text, _ := os.ReadFile(p.log)
		return fmt.Errorf("%s has ended: %s: …%s", p.Name, p.cmd.ProcessState, text[max(0, len(text)-500):])
	default:
		return nil
	}
}

// ExitCode returns the exit status of an ended process; -1 if a signal ended it.
func (p *Process) ExitCode() int { return p.cmd.ProcessState.ExitCode() }

// Stop sends SIGTERM and, after wait, SIGKILL.
func (p *Process) Stop(wait time.Duration) error {
	p.Signal(syscall.SIGCONT)
	p.Signal(syscall.SIGTERM)
	select {
	case <-p.ended:
		return nil
	case <-time.After(wait):
		p.Signal(syscall.SIGKILL)
		<-p.ended
		return fmt.Errorf("%s did not end within %s of SIGTERM", p.Name, wait)
	}
}

// Answers returns nil if the process runs and the URL answers 200.
func (p *Process) Answers(url string) error {
	if err := p.Running(); err != nil {
		return err
	}
	resp, err := (&http.Client{Timeout: time.Second}).Get(url)
	if err != nil {
		return err
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return errors.New(resp.Status)
	}
	return nil
}

// RSS returns the resident memory in bytes.
func (p *Process) RSS() (int64, error) { return RSS(p.PID()) }

// RSS returns the resident memory of a process of this machine, in bytes.
func RSS(pid int) (int64, error) { return Resident(pid, "VmRSS") }

// Resident returns a memory figure of a process from /proc/PID/status, in bytes.
func Resident(pid int, field string) (int64, error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	defer func() { _ = f.Close() }()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if value, ok := strings.CutPrefix(lines.Text(), field+":"); ok {
			kib, err := strconv.ParseInt(strings.Fields(value)[0], 10, 64)
			return kib << 10, err
		}
	}
	return 0, errors.Join(fmt.Errorf("no %s", field), lines.Err())
}

// Peak follows the resident memory of a process. The returned function ends this, and returns the
// maximum in bytes.
func Peak(ctx context.Context, pid int) func() int64 {
	var most int64
	ctx, stop := context.WithCancel(ctx)
	var done sync.WaitGroup
	done.Go(func() {
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil {
			if bytes, err := RSS(pid); err == nil {
				most = max(most, bytes)
			}
			select {
			case <-ctx.Done():
			case <-tick.C:
			}
		}
	})
	return func() int64 {
		stop()
		done.Wait()
		return most
	}
}

// Limit is the deadline of Eventually. It only ends a run that hangs.
const Limit = 40 * time.Second

// Eventually polls check until it succeeds. After Limit, it returns check's last error.
func Eventually(ctx context.Context, what string, check func() error) error {
	ctx, cancel := context.WithTimeout(ctx, Limit)
	defer cancel()
	if err := retry.Until(ctx, 20*time.Millisecond, func(context.Context) error { return check() }); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}
