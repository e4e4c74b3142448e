package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	rollouts       = 20
	rolloutClients = 4
	adoptions      = 20
	overheads      = 9
	fleetSize      = 200
	fleetRest      = 20 * time.Second
)

// gpuEngine is penstock sim with accelerators, whose number --devices sets.
const gpuEngine = `---
apiVersion: penstock.dev/v1alpha1
kind: Engine
metadata: {name: gpu}
spec:
  versions:
  - version: v1
    supportedTasks: [text-generation]
    devices: {list: ["false"], variable: CUDA_VISIBLE_DEVICES}
    deployTemplate:
      process:
        program: penstock
        args: [sim, --listen, '${host}:${port}', --name, '${deployment}-${replica}', --model, '${model.servedName}']
`

func deploymentObject(name, engine, more string) string {
	return fmt.Sprintf(`---
apiVersion: penstock.dev/v1alpha1
kind: ModelDeployment
metadata: {name: %[1]s}
spec:
  engine: {name: %[2]s}
  model: {name: %[1]s}
  gatewayRefs: [{name: gw}]
%[3]s
`, name, engine, more)
}

type fleet struct {
	*gateway
	c    config
	args []string
}

func startFleet(c config, objects string, args ...string) (*fleet, error) {
	g, err := startGateway(c, objects, args...)
	if err != nil {
		return nil, err
	}
	f := &fleet{gateway: g, c: c, args: args}
	stop := g.close
	f.close = func() {
		_ = exec.Command(c.penstock, "down", "-f", f.files, "--state", f.state()).Run()
		stop()
	}
	return f, nil
}

func (f *fleet) state() string { return filepath.Join(filepath.Dir(f.files), "state") }

func (f *fleet) write(objects string) error {
	text := fmt.Sprintf(gatewayObject, f.port) + objects
	next := filepath.Join(filepath.Dir(f.files), "next.yaml")
	if err := os.WriteFile(next, []byte(text), 0o600); err != nil {
		return err
	}
	return os.Rename(next, filepath.Join(f.files, "all.yaml"))
}

func (f *fleet) asks(ctx context.Context, client *http.Client, model string) (by string, err error) {
	body := fmt.Sprintf(`{"model": %q, "messages": [{"role": "user", "content": "hi"}]}`, model)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, f.url+"v1/chat/completions", strings.NewReader(body))
	if err != nil {
		return "", err
	}
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%d %s", resp.StatusCode, text)
	}
	return resp.Header.Get("x-served-by"), err
}

// pids returns the model servers' processes by name.
func (f *fleet) pids() (map[string]int, error) {
	files, err := filepath.Glob(filepath.Join(f.state(), "engines", "*.json"))
	if err != nil {
		return nil, err
	}
	out := map[string]int{}
	for _, file := range files {
		var record struct{ PID int }
		text, err := os.ReadFile(file)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err == nil {
			err = json.Unmarshal(text, &record)
		}
		if err != nil {
			return nil, err
		}
		out[filepath.Base(file)] = record.PID
	}
	return out, nil
}

func (f *fleet) ports() (ports []int, err error) {
	var saved struct{ Ports map[string]int }
	text, err := os.ReadFile(filepath.Join(f.state(), "deployments.json"))
	if err == nil {
		err = json.Unmarshal(text, &saved)
	}
	return slices.Sorted(maps.Values(saved.Ports)), err
}

// measureRollouts changes deployments under load, with new servers beside the old ones, and one
// after another.
func measureRollouts(ctx context.Context, c config, out report) error {
	total := 0.0
	for _, part := range []struct{ name, engine, more string }{
		{"spare", "sim", ""}, {"replicas", "gpu", "  replicas: 2\n  resources: {gpu: 1}\n"},
	} {
		objects := func(n int) string {
			return gpuEngine + deploymentObject("m", part.engine, part.more+
				fmt.Sprintf("  env: [{name: VERSION, value: '%d'}]", n))
		}
		failed, sent, err := rollOut(ctx, c, objects)
		if err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
		total += failed
		out("rollout_failed", part.name, failed)
		out("rollout_failed", part.name+"_requests", sent)
	}
	out("rollout_failed", "", total)
	return nil
}

func rollOut(ctx context.Context, c config, objects func(int) string) (failed, sent float64, err error) {
	f, err := startFleet(c, objects(0), "--devices", "2")
	if err != nil {
		return 0, 0, err
	}
	defer f.close()
	one := &http.Client{Timeout: timeout}
	if err := f.serves(ctx, func() error { _, err := f.asks(ctx, one, "m"); return err }); err != nil {
		return 0, 0, err
	}
	load, stop := context.WithCancel(ctx)
	var bad, all atomic.Int64
	var clients sync.WaitGroup
	for range rolloutClients {
		clients.Go(func() {
			client := &http.Client{Timeout: timeout}
			for load.Err() == nil {
				if _, err := f.asks(load, client, "m"); err != nil && load.Err() == nil {
					bad.Add(1)
				}
				all.Add(1)
			}
		})
	}
	defer clients.Wait()
	defer stop()
	for n := range rollouts {
		before, err := f.pids()
		if err == nil {
			err = f.write(objects(n + 1))
		}
		if err != nil {
			return 0, 0, err
		}
		if err := eventually(ctx, func() error { return f.replaced(before) }); err != nil {
			return 0, 0, fmt.Errorf("rollout %d: %w; output:\n%s", n, err, f.output())
		}
	}
	stop()
	clients.Wait()
	return float64(bad.Load()), float64(all.Load()), nil
}

func (f *fleet) replaced(before map[string]int) error {
	now, err := f.pids()
	if err != nil || len(now) != len(before) {
		return errors.Join(err, fmt.Errorf("%d servers, before %d", len(now), len(before)))
	}
	old := map[int]bool{0: true}
	for _, pid := range before {
		old[pid] = true
	}
	for name, pid := range now {
		if old[pid] {
			return fmt.Errorf("%s still has process %d", name, pid)
		}
	}
	return nil
}

// measureAdoption kills or upgrades penstock, while streams go directly to a model server.
func measureAdoption(ctx context.Context, c config, out report) error {
	f, err := startFleet(c, deploymentObject("m", "sim", "  variables: {inter-token-latency: 20ms}"))
	if err != nil {
		return err
	}
	defer func() { f.close() }()
	client := &http.Client{Timeout: timeout}
	ask := func() error { _, err := f.asks(ctx, client, "m"); return err }
	if err := f.serves(ctx, ask); err != nil {
		return err
	}
	before, err := f.pids()
	if err != nil {
		return err
	}
	ports, err := f.ports()
	if err != nil {
		return err
	}
	load, stop := context.WithCancel(ctx)
	defer stop()
	streams := make(chan int, 1)
	go func() {
		failed := 0
		for load.Err() == nil {
			if err := streamDirectly(load, ports[0]); err != nil && load.Err() == nil {
				failed++
			}
		}
		streams <- failed
	}()
	var gaps time.Duration
	for n := range adoptions {
		end := syscall.SIGKILL
		if n%2 == 1 { // an upgrade
			end = syscall.SIGTERM
		}
		began := time.Now()
		f.Signal(end)
		<-f.Ended()
		p, err := startPlane(c, "up", f.files, f.state(), append([]string{"--concurrency", "1"}, f.args...)...)
		if err != nil {
			return err
		}
		f.plane = p
		if err := f.serves(ctx, ask); err != nil {
			return err
		}
		gaps += time.Since(began)
	}
	after, err := f.pids()
	if err != nil {
		return err
	}
	stop()
	restarts := 0
	for name, pid := range before {
		if after[name] != pid {
			restarts++
		}
	}
	failed := <-streams
	out("adopt_restarts", "", float64(restarts+failed))
	out("adopt_restarts", "streams", float64(failed))
	out("adopt_restarts", "gap", gaps.Seconds()/adoptions)
	return nil
}

func streamDirectly(ctx context.Context, port int) error {
	body := fmt.Sprintf(`{"model": "m", "stream": true, "messages": [{"role": "user", "content": %q}]}`,
		strings.Repeat("word ", 100))
	url := fmt.Sprintf("http://127.0.0.1:%d/v1/chat/completions", port)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	text, err := io.ReadAll(resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err == nil && !bytes.Contains(text, []byte("[DONE]")) {
		err = errors.New("the stream is cut")
	}
	return err
}
