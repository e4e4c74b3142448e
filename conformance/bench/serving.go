package main

import (
	"context"
	"errors"
	"time"

	"github.com/penstock-project/penstock/conformance/bench/proxy"
	"github.com/penstock-project/penstock/conformance/bench/world"
)

const (
	rest    = 5 * time.Second
	streams = 1000
	idleFor = 20 * time.Second
)

func measureProcess(ctx context.Context, c config, out report) error {
	w, err := world.New(world.Routes5000)
	if err != nil {
		return err
	}
	files, state, remove, err := folder(w.WriteFiles)
	if err != nil {
		return err
	}
	defer remove()
	want, err := resourcesOf(world.Routes5000)
	if err != nil {
		return err
	}
	took, _, p, err := coldStart(ctx, c, files, state, want)
	if err != nil {
		return err
	}
	out("cold_start", "", took.Seconds())
	p.stop()
	took, have, p, err := coldStart(ctx, c, files, state, want)
	if err != nil {
		return err
	}
	defer p.stop()
	out("cold_start", "restart", took.Seconds())
	rss, err := memoryAtRest(ctx, p)
	if err != nil {
		return err
	}
	out("memory_rss", "", rss)
	address, err := p.adsAddress(ctx)
	if err != nil {
		return err
	}
	crowd, err := storms(ctx, address, have, out)
	if err != nil {
		return errors.Join(err, p.Running())
	}
	used, err := idle(ctx, p, out)
	crowd.close()
	if err != nil {
		return err
	}
	p.stop()
	floor, err := idleFloor(ctx)
	out("idle_cpu", "", used/floor)
	out("idle_cpu", "used", used)
	out("idle_cpu", "floor", floor)
	return err
}

func storms(ctx context.Context, address string, have proxy.Have, out report) (*crowd, error) {
	var times []time.Duration
	var resent int64
	var last *crowd
	for range 3 {
		if last != nil {
			last.close()
		}
		start := time.Now()
		c, at, err := resume(ctx, address, streams, have)
		if err != nil {
			return nil, err
		}
		times, last = append(times, at.Sub(start)), c
		resent += c.resent.Load()
	}
	out("reconnect_storm", "", median(times).Seconds())
	out("reconnect_resent", "", float64(resent))
	return last, nil
}

func resourcesOf(size world.Size) (int, error) {
	r, err := newRig(size)
	if err != nil {
		return 0, err
	}
	defer r.close()
	return len(r.translator.Resources(world.Gateway)), nil
}

func coldStart(ctx context.Context, c config, files, state string, want int) (time.Duration, proxy.Have,
	*plane, error) {
	start := time.Now()
	p, err := startPlane(c, "serve", files, state)
	if err != nil {
		return 0, nil, nil, err
	}
	took, have, err := firstPush(ctx, p, start, want)
	if err != nil {
		err = errors.Join(err, p.Running())
		p.stop()
	}
	return took, have, p, err
}

func firstPush(ctx context.Context, p *plane, start time.Time, want int) (time.Duration, proxy.Have, error) {
	address, err := p.adsAddress(ctx)
	if err != nil {
		return 0, nil, err
	}
	first, err := proxy.Connect(ctx, proxy.Config{
		Address: address, Node: "bench", Cluster: world.Gateway, Follow: true,
	})
	if err != nil {
		return 0, nil, err
	}
	defer first.Close()
	if err := first.Start(); err != nil {
		return 0, nil, err
	}
	err = complete(ctx, first, want)
	return first.Last().Sub(start), first.Have(), err
}

func memoryAtRest(ctx context.Context, p *plane) (float64, error) {
	if err := pause(ctx, rest); err != nil {
		return 0, err
	}
	return p.rss()
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func idle(ctx context.Context, p *plane, out report) (used float64, err error) {
	rss, err := memoryAtRest(ctx, p) // this waits until the memory of the storm is returned
	if err != nil {
		return 0, err
	}
	out("memory_rss", "streams", rss)
	used, err = cpuWhileIdle(ctx, p.cpu)
	if err != nil {
		return 0, err
	}
	return used, p.Running()
}
