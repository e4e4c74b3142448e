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

func measureFanout(ctx context.Context, _ config, out report) error {
	ours, assignments, err := fanout(ctx, out)
	if err != nil {
		return err
	}
	runtime.GC() // our garbage is not part of their time
	theirs, err := gcpFanout(ctx, assignments)
	if err != nil {
		return fmt.Errorf("go-control-plane: %w", err)
	}
	out("endpoint_fanout_vs_gcp", "", float64(ours)/float64(theirs))
	return nil
}

func assignmentName(backend int) string {
	return model.ServiceCluster("default", fmt.Sprint("svc-", backend), 80).String()
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
	// timed sends a change of a backend, and returns how long the last proxy took to read it.
	timed := func(backend int, send func() error) (took time.Duration, err error) {
		c.expect(assignmentName(backend))
		t.begin()
		start := time.Now()
		if err := send(); err != nil {
			return 0, err
		}
		at, err := c.wait(ctx)
		if err != nil {
			return 0, err
		}
		return at.Sub(start), t.answered(ctx, streams)
	}
	var changed, constant []time.Duration
	for turn := 1; turn <= 15; turn++ {
		backend := turn * 222
		_, slice := r.world.Service(backend, turn)
		took, err := timed(backend, func() error { return r.change(store.EndpointSlices.Put(slice)) })
		if err != nil {
			return 0, nil, err
		}
		again, err := timed(backend, t.constant())
		if err != nil {
			return 0, nil, err
		}
		changed, constant = append(changed, took), append(constant, again)
	}
	if n := c.resent.Load(); n > 0 {
		return 0, nil, fmt.Errorf("%d resources were sent that did not change", n)
	}
	out("endpoint_fanout", "", float64(median(changed))/float64(median(constant)))
	assignments := map[string][]byte{}
	for _, res := range r.translator.Resources(world.Gateway) {
		if res.Type == resource.Endpoints {
			assignments[res.Name] = res.Body()
		}
	}
	return median(changed), assignments, nil
}
