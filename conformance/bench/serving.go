package main

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/penstock-project/penstock/conformance/bench/proxy"
	"github.com/penstock-project/penstock/conformance/bench/world"
)

// idleFor is the time over which idle CPU is measured.
const idleFor = 20 * time.Second

// measureProcess measures penstock serve as a process, from its start to 1,000 idle streams.
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
	used, err := p.cpu()
	if err != nil {
		return err
	}
	out("cold_start", "", took.Seconds())
	out("cold_start", "cpu", used.Seconds())
	rss, err := memoryAtRest(ctx, p)
	if err != nil {
		return err
	}
	out("memory_rss", "first_start", rss)
	p.stop()
	took, have, p, err := coldStart(ctx, c, files, state, want)
	if err != nil {
		return err
	}
	defer p.stop()
	out("cold_start", "restart", took.Seconds())
	if err := memory(ctx, p, out); err != nil {
		return err
	}
	address, err := p.adsAddress(ctx)
	if err != nil {
		return err
	}
	crowd, err := storms(ctx, address, have, out)
	if err != nil {
		return errors.Join(err, p.running())
	}
	defer crowd.close()
	return idle(ctx, p, out)
}

// storms reconnects all proxies a few times, and returns those of the last time, which stay
// connected.
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

// resourcesOf returns the number of resources that a proxy receives of a world.
func resourcesOf(size world.Size) (int, error) {
	r, err := newRig(size)
	if err != nil {
		return 0, err
	}
	defer r.close()
	return len(r.translator.Resources(world.Gateway)), nil
}

// coldStart starts penstock serve and returns when a proxy has everything.
func coldStart(ctx context.Context, c config, files, state string, want int) (time.Duration, proxy.Have, *plane,
	error) {
	start := time.Now()
	p, err := startPlane(c, "serve", files, state)
	if err != nil {
		return 0, nil, nil, err
	}
	took, have, err := firstPush(ctx, p, start, want)
	if err != nil {
		err = errors.Join(err, p.running())
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

// rest is the time a process has to become idle after it has loaded everything.
const rest = 5 * time.Second

// memoryAtRest returns the resident memory of an idle process in MiB.
func memoryAtRest(ctx context.Context, p *plane) (float64, error) {
	select {
	case <-time.After(rest):
		return p.rss()
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// memory measures a process: first its resident memory, because reading metrics makes garbage, then
// its heap for a while. The minimum is the live heap.
func memory(ctx context.Context, p *plane, out report) error {
	rss, err := memoryAtRest(ctx, p)
	if err != nil {
		return err
	}
	out("memory_rss", "", rss)
	var heaps []float64
	for start := time.Now(); time.Since(start) < 2*rest; {
		heap, err := p.metric(ctx, "go_memstats_heap_alloc_bytes")
		if err != nil {
			return err
		}
		heaps = append(heaps, heap)
		select {
		case <-time.After(rest / 20):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	out("memory_heap", "", slices.Min(heaps)/(1<<20))
	out("memory_heap", "with_garbage", slices.Max(heaps)/(1<<20))
	return nil
}

// idle measures an idle process.
func idle(ctx context.Context, p *plane, out report) error {
	rss, err := memoryAtRest(ctx, p) // memory of the storm is returned first
	if err != nil {
		return err
	}
	out("memory_rss", "streams", rss)
	before, err := p.cpu()
	if err != nil {
		return err
	}
	start := time.Now()
	select {
	case <-time.After(idleFor):
	case <-ctx.Done():
		return ctx.Err()
	}
	after, err := p.cpu()
	if err != nil {
		return err
	}
	out("idle_cpu", "", 100*float64(after-before)/float64(time.Since(start)))
	return p.running()
}
