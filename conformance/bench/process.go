package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// process is a running penstock or Envoy.
type process struct {
	cmd  *exec.Cmd
	done chan struct{}
	mu   sync.Mutex
	out  bytes.Buffer
}

// start runs a program until stop, or until this process ends.
func start(path string, args ...string) (*process, error) {
	p := &process{cmd: exec.Command(path, args...), done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = p, p
	p.cmd.SysProcAttr = dieWithParent()
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(p.done)
		_ = p.cmd.Wait() // the output has the reason
	}()
	return p, nil
}

// Write implements io.Writer for the process's output.
func (p *process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.Write(b)
}

// output returns the process's output so far.
func (p *process) output() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.String()
}

func (p *process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(10 * time.Second):
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}

// running returns an error once the process has ended.
func (p *process) running() error {
	select {
	case <-p.done:
		return fmt.Errorf("it ended: %s", p.output())
	default:
		return nil
	}
}

// cpu returns the process's CPU time so far.
func (p *process) cpu() (time.Duration, error) { return cpuOf(p.cmd.Process.Pid) }

// cpuOf returns the CPU time of a process so far, from /proc, where the kernel counts hundredths of
// a second.
func cpuOf(pid int) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	after := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	var ticks int64
	for _, field := range after[11:13] { // utime and stime
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, err
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond, nil
}

// settled waits until the process has been idle for a while, and returns its CPU time so far. Idle
// means less than 2% of a core.
func (p *process) settled(ctx context.Context, idle time.Duration) (time.Duration, error) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	last, err := p.cpu()
	for since := time.Now(); err == nil && time.Since(since) < idle; {
		select {
		case <-ctx.Done():
			return last, ctx.Err()
		case <-tick.C:
		}
		var now time.Duration
		if now, err = p.cpu(); now-last > idle/50 {
			last, since = now, time.Now()
		}
	}
	return last, errors.Join(err, p.running())
}

// rss returns the process's resident memory in MiB.
func (p *process) rss() (float64, error) { return residentOf(p.cmd.Process.Pid) }

// residentOf returns the resident memory of a process in MiB.
func residentOf(pid int) (float64, error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	defer func() { _ = f.Close() }()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if value, ok := strings.CutPrefix(lines.Text(), "VmRSS:"); ok {
			kib, err := strconv.ParseFloat(strings.Fields(value)[0], 64)
			return kib / 1024, err
		}
	}
	return 0, errors.Join(errors.New("no VmRSS"), lines.Err())
}

// highest follows the resident memory of the process until stop is closed, and returns the maximum
// in MiB.
func (p *process) highest(stop <-chan struct{}) (most float64) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		if now, err := p.rss(); err == nil {
			most = max(most, now)
		}
		select {
		case <-stop:
			return most
		case <-tick.C:
		}
	}
}

// plane is penstock serve or up.
type plane struct {
	*process
	api http.Client // for the socket in the state folder
}

// startPlane starts penstock serve or up and does not wait for it.
func startPlane(c config, command, files, state string, args ...string) (*plane, error) {
	args = append([]string{command, "-f", files, "--state", state, "--picker", "127.0.0.1:0", "--log-level", "warn"},
		args...)
	p, err := start(c.penstock, args...)
	if err != nil {
		return nil, err
	}
	return planeOf(p, state), nil
}

// planeOf returns a penstock process with its state folder.
func planeOf(p *process, state string) *plane {
	socket := filepath.Join(state, "api.sock")
	return &plane{process: p, api: http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		},
	}}}
}

// adsAddress waits until penstock serve prints its ADS address.
func (p *plane) adsAddress(ctx context.Context) (address string, err error) {
	err = eventually(ctx, func() error {
		_, after, _ := strings.Cut(p.output(), "ADS at ")
		var ok bool
		if address, _, ok = strings.Cut(after, ","); !ok {
			return errors.Join(errors.New("no address yet"), p.running())
		}
		return nil
	})
	return address, err
}

// metric reads a gauge or counter without labels from /metrics.
func (p *plane) metric(ctx context.Context, name string) (float64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://penstock/metrics", nil)
	if err != nil {
		return 0, err
	}
	resp, err := p.api.Do(req)
	if err != nil {
		return 0, err
	}
	defer func() { _ = resp.Body.Close() }()
	page, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(page)) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			return strconv.ParseFloat(strings.TrimSpace(value), 64)
		}
	}
	return 0, fmt.Errorf("no metric %s", name)
}

// folder creates a folder with a world's files and one for state.
func folder(write func(dir string) error) (files, state string, remove func(), err error) {
	dir, err := os.MkdirTemp("", "penstock-bench")
	if err != nil {
		return "", "", nil, err
	}
	remove = func() { _ = os.RemoveAll(dir) }
	files, state = filepath.Join(dir, "config"), filepath.Join(dir, "state")
	if err = errors.Join(os.Mkdir(files, 0o700), os.Mkdir(state, 0o700)); err == nil {
		err = write(files)
	}
	if err != nil {
		remove()
	}
	return files, state, remove, err
}
