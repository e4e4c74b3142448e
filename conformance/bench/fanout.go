package main

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/penstock-project/penstock/conformance/bench/world"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/translator/model"
	"github.com/penstock-project/penstock/xds/resource"
)

const streams = 1000

// measureFanout measures one changed endpoint of 50,000, until 1,000 proxies have it.
func measureFanout(ctx context.Context, _ config, out report) error {
	ours, assignments, err := fanout(ctx, out)
	if err != nil {
		return err
	}
	runtime.GC() // our garbage is not part of their time
	g, err := newGCP(assignments)
	if err != nil {
		return fmt.Errorf("go-control-plane: %w", err)
	}
	linear, err := g.fanout(ctx, g.linear())
	if err != nil {
		return fmt.Errorf("go-control-plane's LinearCache: %w", err)
	}
	out("endpoint_fanout_vs_gcp", "", float64(ours)/float64(linear))
	out("endpoint_fanout_vs_gcp", "gcp", milliseconds(linear))
	runtime.GC()
	snapshot, err := g.snapshot(ctx)
	if err != nil {
		return fmt.Errorf("go-control-plane's SnapshotCache: %w", err)
	}
	took, err := g.fanout(ctx, snapshot)
	if err != nil {
		return fmt.Errorf("go-control-plane's SnapshotCache: %w", err)
	}
	out("endpoint_fanout_vs_gcp", "snapshot", milliseconds(took))
	return nil
}

// fanout measures Penstock from the store's commit on, and returns the assignments that were
// served.
func fanout(ctx context.Context, out report) (time.Duration, map[string][]byte, error) {
	var t tap
	r, err := newRig(world.Fleet, t.option())
	if err != nil {
		return 0, nil, err
	}
	defer r.close()
	first, err := r.attach(ctx, nil)
	if err != nil {
		return 0, nil, err
	}
	have := first.Have()
	first.Close()
	c, _, err := resume(ctx, r.address, streams, have)
	if err != nil {
		return 0, nil, err
	}
	defer c.close()
	var sent, received, floor, floorReceived []time.Duration
	for turn := 1; turn <= 15; turn++ {
		backend := turn * 222
		name := model.ServiceCluster("default", fmt.Sprint("svc-", backend), 80).String()
		_, slice := r.world.Service(backend, turn)
		c.expect(name)
		t.begin()
		start := time.Now()
		if err := r.change(store.EndpointSlices.Put(slice)); err != nil {
			return 0, nil, err
		}
		took, err := t.wait(ctx, streams, start)
		if err != nil {
			return 0, nil, err
		}
		at, err := c.wait(ctx)
		if err != nil {
			return 0, nil, err
		}
		sent, received = append(sent, took), append(received, at.Sub(start))
		if err := t.answered(ctx, streams); err != nil {
			return 0, nil, err
		}
		c.expect(name)
		start = time.Now()
		took, err = t.constant(ctx)
		if err != nil {
			return 0, nil, err
		}
		if at, err = c.wait(ctx); err != nil {
			return 0, nil, err
		}
		floor, floorReceived = append(floor, took), append(floorReceived, at.Sub(start))
		if err := t.answered(ctx, streams); err != nil {
			return 0, nil, err
		}
	}
	if n := c.resent.Load(); n > 0 {
		return 0, nil, fmt.Errorf("%d resources were sent that did not change", n)
	}
	out("endpoint_fanout", "", float64(median(received))/float64(median(floorReceived)))
	out("endpoint_fanout", "ours", milliseconds(median(received)))
	out("endpoint_fanout", "constant", milliseconds(median(floorReceived)))
	out("endpoint_fanout", "queued", float64(median(sent))/float64(median(floor)))
	assignments := map[string][]byte{}
	for _, res := range r.translator.Resources(world.Gateway) {
		if res.Type == resource.Endpoints {
			assignments[res.Name] = res.Body()
		}
	}
	return median(received), assignments, nil
}
