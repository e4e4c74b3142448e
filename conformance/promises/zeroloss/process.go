package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/penstock-project/penstock/conformance/lab/retry"
)

// process is a child with a name and a log file.
type process struct {
	name  string
	cmd   *exec.Cmd
	ended chan struct{}
}

// start runs a program. Where the kernel supports it, the program ends with this one.
func start(name, logPath, binary string, env []string, args ...string) (*process, error) {
	logFile, err := os.OpenFile(logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	p := &process{name: name, cmd: exec.Command(binary, args...), ended: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = logFile, logFile
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.SysProcAttr = processAttributes()
	began := make(chan error)
	go func() {
		runtime.LockOSThread() // the signal is tied to the thread that starts the child
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

func (p *process) signal(s syscall.Signal) { _ = p.cmd.Process.Signal(s) } // it may have ended

// alive reports whether the process is running.
func (p *process) alive() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// stop sends SIGTERM, and SIGKILL after a while.
func (p *process) stop(wait time.Duration) error {
	p.signal(syscall.SIGCONT)
	p.signal(syscall.SIGTERM)
	select {
	case <-p.ended:
		return nil
	case <-time.After(wait):
		p.signal(syscall.SIGKILL)
		<-p.ended
		return fmt.Errorf("%s did not end within %s of SIGTERM", p.name, wait)
	}
}

// ports assigns each port once: a server that has ended must not be confused with a later one. They are below the range
// that the kernel assigns to clients.
type ports struct{ given map[int]bool }

func (p *ports) free() (int, error) {
	for range 1000 {
		port := 10000 + rand.IntN(20000)
		if p.given[port] {
			continue
		}
		if l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			p.given[port] = true
			return port, l.Close()
		}
	}
	return 0, errors.New("no free port")
}

// plane is one `penstock serve`, which can be restarted.
type plane struct {
	*process
	name                string
	binary, dir, state  string
	drain               time.Duration
	xds, picker, status int
	pickers, peers      []int // of all
	extra               []string
}

func (p *plane) start(logDir string) (err error) {
	args := []string{
		"serve", "-f", p.dir, "--state", p.state, "--log-level", "info", "--drain-time", p.drain.String(),
		"--xds", fmt.Sprintf("127.0.0.1:%d", p.xds), "--picker", fmt.Sprintf("127.0.0.1:%d", p.picker), "--http", fmt.Sprintf("127.0.0.1:%d", p.status),
	}
	for _, port := range p.pickers {
		args = append(args, "--picker-address", fmt.Sprintf("127.0.0.1:%d", port))
	}
	for _, port := range p.peers {
		args = append(args, "--peers", fmt.Sprintf("127.0.0.1:%d", port))
	}
	p.process, err = start(p.name, filepath.Join(logDir, p.name+".log"), p.binary, nil, append(args, p.extra...)...)
	return err
}

// ready waits until the configuration has been read.
func (p *plane) ready(ctx context.Context) error {
	return eventually(ctx, p.name+" is ready", p.readyz)
}

func (p *plane) readyz() error { return p.ask(fmt.Sprintf("http://127.0.0.1:%d/readyz", p.status)) }

func (p *process) ask(url string) error {
	if !p.alive() {
		return fmt.Errorf("%s has ended: %s", p.name, p.cmd.ProcessState)
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

// limit is the deadline of eventually. It only ends a run that hangs.
const limit = 40 * time.Second

// eventually polls check until it succeeds, and returns its last error after the limit.
func eventually(ctx context.Context, what string, check func() error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if err := retry.Until(ctx, 20*time.Millisecond, func(context.Context) error { return check() }); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// startEnvoy starts an Envoy with the bootstrap that penstock prints for some control planes.
func startEnvoy(binary, envoy, dir, name string, admin int, drain time.Duration, planes ...*plane) (*process, error) {
	args := []string{"bootstrap", "--gateway", "default/gw", "--admin", fmt.Sprintf("127.0.0.1:%d", admin), "--drain-time", drain.String(), "--concurrency", "2"}
	for _, p := range planes {
		args = append(args, "--xds", fmt.Sprintf("127.0.0.1:%d", p.xds))
	}
	text, err := exec.Command(binary, args...).Output()
	if err != nil {
		return nil, fmt.Errorf("penstock bootstrap: %w", err)
	}
	path := filepath.Join(dir, name+".yaml")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		return nil, err
	}
	line, _, _ := bytes.Cut(text, []byte("\n"))
	more := strings.Fields(strings.TrimPrefix(string(line), "# envoy arguments:"))
	return start(name, filepath.Join(dir, name+".log"), envoy, nil, append([]string{"-c", path, "--log-level", "warning"}, more...)...)
}
