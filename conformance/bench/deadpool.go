package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

const (
	deadPoolServers = 3
	deadPoolTurns   = 5
	// deadPoolWarning begins the Warning of penstock up. A turn waits deadPoolLimit for it.
	deadPoolWarning = "no request can be served"
	deadPoolLimit   = 20 * time.Second
)

// measureDeadPool ends the servers of a pool, all but one first, and measures how long penstock up
// takes from the end of the last one to its Warning: without a request if they are killed, and with
// requests if they freeze.
func measureDeadPool(ctx context.Context, c config, out report) error {
	for suffix, signal := range map[string]syscall.Signal{"": syscall.SIGKILL, "frozen": syscall.SIGSTOP} {
		var took []float64
		for range deadPoolTurns {
			d, err := deadPoolTurn(ctx, c, signal)
			if err != nil {
				return err
			}
			took = append(took, d.Seconds())
		}
		out("dead_pool_seen", suffix, slices.Max(took))
	}
	return nil
}

func deadPoolTurn(ctx context.Context, c config, signal syscall.Signal) (time.Duration, error) {
	e := &ended{}
	var servers []*process
	defer func() {
		for _, s := range servers {
			_ = s.cmd.Process.Signal(syscall.SIGCONT)
			s.stop()
		}
	}()
	port, err := freePort()
	if err != nil {
		return 0, err
	}
	e.gateway = fmt.Sprintf("http://127.0.0.1:%d/", port)
	var list []string
	for i := range deadPoolServers {
		at, err := freePort()
		if err != nil {
			return 0, err
		}
		s, err := start(c.penstock, "sim", "--listen", fmt.Sprint("127.0.0.1:", at), "--name", fmt.Sprint("server-", i),
			"--grace", "1ms")
		if err != nil {
			return 0, err
		}
		servers, list = append(servers, s), append(list, fmt.Sprintf("{address: 127.0.0.1, ports: [%d]}", at))
	}
	gateway, _, _ := strings.Cut(endedObjects, "---")
	objects := fmt.Sprintf(gateway, port) + fmt.Sprintf(endedPool, "any", strings.Join(list, ", "))
	files, state, remove, err := folder(func(dir string) error {
		return os.WriteFile(filepath.Join(dir, "all.yaml"), []byte(objects), 0o600)
	})
	if err != nil {
		return 0, err
	}
	defer remove()
	if e.plane, err = startPlane(c, "up", files, state, "--concurrency", "1"); err != nil {
		return 0, err
	}
	defer e.plane.stop()
	serving := func(n float64) error {
		return eventually(ctx, func() error {
			got, err := e.plane.metric(ctx, `penstock_picker_serving_endpoints{pool="default/any"}`)
			if err == nil && got != n {
				err = fmt.Errorf("%g servers serve, want %g", got, n)
			}
			return errors.Join(err, e.plane.running())
		})
	}
	if err := serving(deadPoolServers); err != nil {
		return 0, err
	}
	time.Sleep(2 * deadPoolServers * time.Second) // each has answered a probe
	for _, s := range servers[1:] {
		_ = s.cmd.Process.Signal(signal)
	}
	if err := serving(1); err != nil {
		return 0, err
	}
	if strings.Contains(e.plane.output(), deadPoolWarning) {
		return 0, errors.New("a Warning although a server serves: " + e.plane.output())
	}
	asking, stop := context.WithCancel(ctx)
	defer stop()
	if signal == syscall.SIGSTOP {
		go e.askAll(asking)
		time.Sleep(time.Second)
	}
	began := time.Now()
	_ = servers[0].cmd.Process.Signal(signal)
	for !strings.Contains(e.plane.output(), deadPoolWarning) {
		if time.Since(began) > deadPoolLimit {
			return 0, fmt.Errorf("no Warning within %s: %s", deadPoolLimit, e.plane.output())
		}
		time.Sleep(time.Millisecond)
	}
	return time.Since(began), nil
}

// askAll sends a request every 50 ms until ctx ends, whatever becomes of those before.
func (e *ended) askAll(ctx context.Context) {
	every := time.NewTicker(50 * time.Millisecond)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-every.C:
			go func() { _, _ = e.ask(ctx, "any/v1/chat/completions") }() // it may fail
		}
	}
}
