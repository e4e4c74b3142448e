package main

import (
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
	"time"

	"github.com/penstock-project/penstock/conformance/promises/process"
)

type program struct {
	*process.Process
	log string
}

func start(path string, args ...string) (*program, error) { return startWith(nil, path, args...) }

func startWith(env []string, path string, args ...string) (*program, error) {
	log, err := os.CreateTemp("", "penstock-bench-log-")
	if err != nil {
		return nil, err
	}
	p := &program{log: log.Name()}
	_ = log.Close()
	if p.Process, err = process.Start(filepath.Base(path), p.log, path, env, args...); err != nil {
		_ = os.Remove(p.log)
		return nil, err
	}
	return p, nil
}

func again(variable string) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self)
	cmd.Env, cmd.Stderr, cmd.SysProcAttr = append(os.Environ(), variable), os.Stderr, process.Attributes()
	return cmd, nil
}

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

func (p *program) output() string {
	text, _ := os.ReadFile(p.log)
	return string(text)
}

func (p *program) stop() {
	_ = p.Stop(10 * time.Second)
	_ = os.Remove(p.log)
}

func (p *program) cpu() (time.Duration, error) { return cpuOf(p.PID()) }

// cpuOf returns a process's CPU time, in steps of 10 ms.
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

// settled waits until the process has used less than 2 % of a core for the duration idle.
func (p *program) settled(ctx context.Context, idle time.Duration) error {
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
	return errors.Join(err, p.Running())
}

func (p *program) rss() (float64, error) {
	bytes, err := p.RSS()
	return float64(bytes) / (1 << 20), err
}

type plane struct {
	*program
	api http.Client
}

func startPlane(c config, command, files, state string, args ...string) (*plane, error) {
	args = append([]string{command, "-f", files, "--state", state, "--picker", "127.0.0.1:0", "--log-level", "warn"},
		args...)
	p, err := start(c.penstock, args...)
	if err != nil {
		return nil, err
	}
	return planeOf(p, state), nil
}

func planeOf(p *program, state string) *plane {
	socket := filepath.Join(state, "api.sock")
	return &plane{program: p, api: http.Client{Transport: &http.Transport{
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
			return errors.Join(errors.New("no address yet"), p.Running())
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

func (p *program) child() (int, error) {
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", p.PID()))
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
