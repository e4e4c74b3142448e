package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// measureOverheads compares a new deployment and a swap with starts and stops of the engine alone.
func measureOverheads(ctx context.Context, c config, out report) error {
	var deploys, swaps, alone []float64
	for range overheads {
		took, err := engineAlone(ctx, c)
		if err != nil {
			return err
		}
		alone = append(alone, took)
	}
	two := deploymentObject("a", "gpu", "  resources: {gpu: 1}") + deploymentObject("b", "gpu", "  resources: {gpu: 1}")
	f, err := startFleet(c, gpuEngine+two, "--devices", "1")
	if err != nil {
		return err
	}
	defer f.close()
	client := &http.Client{Timeout: timeout}
	if err := f.serves(ctx, func() error { _, err := f.asks(ctx, client, "a"); return err }); err != nil {
		return err
	}
	for n := range overheads {
		model := []string{"b", "a"}[n%2]
		began := time.Now()
		if _, err := f.asks(ctx, client, model); err != nil {
			return fmt.Errorf("swap %d: %w", n, err)
		}
		swaps = append(swaps, time.Since(began).Seconds())
	}
	objects := gpuEngine + two
	for n := range overheads {
		name := fmt.Sprint("new-", n)
		objects += deploymentObject(name, "sim", "")
		began := time.Now()
		if err := f.write(objects); err != nil {
			return err
		}
		if err := f.serves(ctx, func() error { _, err := f.asks(ctx, client, name); return err }); err != nil {
			return err
		}
		deploys = append(deploys, time.Since(began).Seconds())
	}
	own := middle(alone)
	out("deploy_overhead", "", max(middle(deploys)-own, 0))
	out("deploy_overhead", "engine", own)
	out("swap_overhead", "", max(middle(swaps)-own, 0))
	out("swap_overhead", "slowest", slices.Max(swaps)-own)
	return nil
}

func middle(values []float64) float64 {
	values = slices.Sorted(slices.Values(values))
	return values[len(values)/2]
}

// engineAlone starts the engine, waits until it is ready, and stops it.
func engineAlone(ctx context.Context, c config) (float64, error) {
	port, err := freePort()
	if err != nil {
		return 0, err
	}
	began := time.Now()
	p, err := start(c.penstock, "sim", "--listen", fmt.Sprint("127.0.0.1:", port))
	if err != nil {
		return 0, err
	}
	err = eventually(ctx, func() error {
		resp, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/health", port))
		if err != nil {
			return err
		}
		return resp.Body.Close()
	})
	p.stop()
	return time.Since(began).Seconds(), err
}

// restingEngine is a process that does nothing. Another process listens at its port.
const restingEngine = `---
apiVersion: penstock.dev/v1alpha1
kind: Engine
metadata: {name: rests}
spec:
  versions:
  - version: v1
    supportedTasks: [text-generation]
    deployTemplate:
      process: {program: sleep, args: [infinity]}
`

// measureFleet reads the CPU time of penstock with many deployments that have no requests, and
// without them: a machine that has nothing else to do takes much time for each wakeup.
func measureFleet(ctx context.Context, c config, out report) error {
	alone, err := startFleet(c, "")
	if err != nil {
		return err
	}
	without, err := alone.rests(ctx)
	alone.close()
	if err != nil {
		return err
	}
	objects := restingEngine
	for i := range fleetSize {
		objects += deploymentObject(fmt.Sprint("m", i), "rests", "  idle: 0s")
	}
	f, err := startFleet(c, objects)
	if err != nil {
		return err
	}
	defer f.close()
	var ports []int
	if err := f.serves(ctx, func() (err error) {
		if ports, err = f.ports(); err == nil && len(ports) < fleetSize {
			err = errors.New("some servers have no port")
		}
		return err
	}); err != nil {
		return err
	}
	if err := f.serves(ctx, func() error { return started(f) }); err != nil {
		return err
	}
	var list []string
	for _, port := range ports {
		list = append(list, "--listen", "127.0.0.1:"+strconv.Itoa(port))
	}
	servers, err := start(c.penstock, append([]string{"sim"}, list...)...)
	if err != nil {
		return err
	}
	defer servers.stop()
	if err := f.serves(ctx, func() error {
		page, err := f.page(ctx, "/status")
		if n := bytes.Count(page, []byte(`"Running"`)); err == nil && n < fleetSize {
			err = fmt.Errorf("%d deployments run", n)
		}
		return err
	}); err != nil {
		return err
	}
	used, err := f.rests(ctx)
	out("fleet_idle", "", used-without)
	out("fleet_idle", "total", used)
	out("fleet_idle", "without", without)
	return err
}

// rests returns the CPU time of penstock without requests, in percent of a core.
func (f *fleet) rests(ctx context.Context) (float64, error) {
	if err := f.settled(ctx, 10*time.Second); err != nil {
		return 0, err
	}
	before, err := f.cpu()
	if err != nil {
		return 0, err
	}
	pause := time.NewTimer(fleetRest)
	defer pause.Stop()
	select {
	case <-ctx.Done():
		return 0, ctx.Err()
	case <-pause.C:
	}
	after, err := f.cpu()
	return 100 * (after - before).Seconds() / fleetRest.Seconds(), err
}

// started is nil once all servers have processes.
func started(f *fleet) error {
	pids, err := f.pids()
	n := 0
	for _, pid := range pids {
		if pid != 0 {
			n++
		}
	}
	if err == nil && n < fleetSize {
		err = fmt.Errorf("%d servers have been started", n)
	}
	return err
}
