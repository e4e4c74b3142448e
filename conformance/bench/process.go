package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
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

type process struct {
	cmd  *exec.Cmd
	done chan struct{}
	mu   sync.Mutex
	out  bytes.Buffer
}

// start runs a program until stop, or until this process ends.
func start(path string, args ...string) (*process, error) {
	p := &process{cmd: exec.Command(path, args...)}
	return p, p.run()
}

func (p *process) run() error {
	p.done = make(chan struct{})
	p.cmd.Stdout, p.cmd.Stderr, p.cmd.SysProcAttr = p, p, dieWithParent()
	if err := p.cmd.Start(); err != nil {
		return err
	}
	go func() {
		defer close(p.done)
		_ = p.cmd.Wait() // the output has the reason
	}()
	return nil
}

func again(variable string) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self)
	cmd.Env, cmd.Stderr, cmd.SysProcAttr = append(os.Environ(), variable), os.Stderr, dieWithParent()
	return cmd, nil
}

// runIfChild runs f and ends this process if the environment has a variable, whose value f gets.
func runIfChild(variable string, f func(value string) error) {
	value := os.Getenv(variable)
	if value == "" {
		return
	}
	if err := f(value); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", variable, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// Write implements io.Writer for the process's output.
func (p *process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.Write(b)
}

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

func (p *process) running() error {
	select {
	case <-p.done:
		return fmt.Errorf("it ended: %s", p.output())
	default:
		return nil
	}
}

func (p *process) cpu() (time.Duration, error) { return cpuOf(p.cmd.Process.Pid) }

// cpuOf returns the CPU time of a process so far. /proc counts hundredths of a second.
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

// settled waits until the process has used less than 2 % of a core for a while.
func (p *process) settled(ctx context.Context, idle time.Duration) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	last, err := p.cpu()
	for since := time.Now(); err == nil && time.Since(since) < idle; {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		var now time.Duration
		if now, err = p.cpu(); now-last > idle/50 {
			last, since = now, time.Now()
		}
	}
	return errors.Join(err, p.running())
}

func (p *process) rss() (float64, error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
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

func planeOf(p *process, state string) *plane {
	socket := filepath.Join(state, "api.sock")
	return &plane{process: p, api: http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		},
	}}}
}

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

func (p *plane) page(ctx context.Context, path string) ([]byte, error) {
	_, body, err := get(ctx, &p.api, "http://penstock"+path)
	return body, err
}

func metric(page []byte, series string) (float64, error) {
	for line := range strings.Lines(string(page)) {
		if value, ok := strings.CutPrefix(line, series+" "); ok {
			return strconv.ParseFloat(strings.TrimSpace(value), 64)
		}
	}
	return 0, fmt.Errorf("no series %s", series)
}

func (p *process) child() (int, error) {
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	var all []string
	for _, task := range tasks {
		text, err := os.ReadFile(task)
		if err != nil {
			return 0, err
		}
		all = append(all, strings.Fields(string(text))...)
	}
	if len(all) != 1 {
		return 0, fmt.Errorf("it has the child processes %v, want one", all)
	}
	return strconv.Atoi(all[0])
}

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
