package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/penstock-project/penstock/conformance/promises/process"
)

const (
	serversOfFleet = 4
	// drain is how long requests may be in flight after the traffic.
	drain = 3 * time.Minute
)

type outcome struct {
	contender
	samples       []sample // has an element for each request
	failed        int
	first         error
	input, cached int // tokens in the prompts: all, and cached
	ttft, end     series
	cpu           time.Duration // CPU time of the router for one request; 0: unknown
}

type scenario struct {
	rivals setting
	load   float64 // share of full load
}

// Only the figures of usual have limits.
var usual = scenario{defaults, 0.7}

func (s scenario) suffix() string {
	if s == usual {
		return ""
	}
	name := "defaults"
	if s.rivals == best {
		name = "best"
	}
	return fmt.Sprintf(".%s_%.0f", name, 100*s.load)
}

type played struct {
	workload
	outcomes  []outcome
	late      time.Duration // 99th percentile
	simulated map[string]float64
}

// run plays a workload: requests fill the caches for warm*lasts, and are traffic for the rest.
func run(ctx context.Context, penstock, envoy string, w workload, all []contender, load float64, lasts time.Duration,
) (*played, error) {
	requests, err := w.plan(load, serversOfFleet, lasts)
	if err != nil {
		return nil, err
	}
	simulated, err := w.simulate(requests, lasts)
	if err != nil {
		return nil, err
	}
	early, requests := split(requests, time.Duration(warm*float64(lasts)))
	if len(requests) == 0 {
		return nil, fmt.Errorf("no request in %s: set MINUTES higher", lasts)
	}
	folder, err := os.MkdirTemp("", "rivals")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	programs := &programs{penstock: penstock, envoy: envoy, ports: &process.Ports{}, folder: folder}
	result := &played{workload: w, simulated: simulated}
	var fleets []*fleet
	for _, c := range all {
		f, err := programs.start(ctx, c, serversOfFleet, w.speed())
		if err != nil {
			return nil, err
		}
		defer f.stop()
		fleets = append(fleets, f)
		result.outcomes = append(result.outcomes, outcome{contender: c, samples: make([]sample, len(requests))})
	}
	var filled sync.WaitGroup
	for _, f := range fleets {
		filled.Go(func() { f.fill(ctx, early, time.Duration(maxFill*float64(lasts))) })
	}
	filled.Wait()
	lasts -= time.Duration(warm * float64(lasts))
	traffic, cancel := context.WithTimeout(ctx, lasts+drain) // requests in flight at this timeout fail
	defer cancel()
	for i, f := range fleets {
		_, used := cpu(f.router.PID())
		result.outcomes[i].cpu = -used
	}
	bodies := bodyCache{requests: requests, uses: len(fleets)}
	play(traffic, departures(requests, len(fleets)), func(d departure) sending {
		body := bodies.take(d.request)
		return func(ctx context.Context, late time.Duration) {
			s := complete(ctx, fleets[d.contender].client, fleets[d.contender].url, body, requests[d.request].output)
			s.late = late
			result.outcomes[d.contender].samples[d.request] = s
		}
	})
	for i, f := range fleets {
		if err := f.router.Running(); err != nil {
			return nil, err
		}
		o := &result.outcomes[i]
		_, used := cpu(f.router.PID())
		o.cpu = (o.cpu + used) / time.Duration(len(requests))
	}
	result.summarize(requests, lasts)
	return result, ctx.Err()
}

func split(all []request, at time.Duration) (early, rest []request) {
	for _, r := range all {
		if r.at < at {
			early = append(early, r)
			continue
		}
		r.at -= at
		rest = append(rest, r)
	}
	return early, rest
}

type bodyCache struct {
	requests []request
	uses     int
	bodies   map[int]*usedBody
}

type usedBody struct {
	text []byte
	left int
}

func (c *bodyCache) take(request int) []byte {
	b := c.bodies[request]
	if b == nil {
		if c.bodies == nil {
			c.bodies = map[int]*usedBody{}
		}
		b = &usedBody{c.requests[request].body(), c.uses}
		c.bodies[request] = b
	}
	if b.left--; b.left == 0 {
		delete(c.bodies, request)
	}
	return b.text
}

func (p *played) summarize(requests []request, lasts time.Duration) {
	var late []time.Duration
	for i := range p.outcomes {
		o := &p.outcomes[i]
		o.ttft, o.end = make(series, slicesOfRun), make(series, slicesOfRun)
		for n, s := range o.samples {
			late = append(late, s.late)
			if s.end == 0 {
				s.err = errors.New("it was not sent")
			}
			if s.err != nil {
				o.failed++
				o.first = cmp.Or(o.first, s.err)
				continue
			}
			slice := sliceOf(requests[n].at, lasts)
			if slice < 0 {
				continue
			}
			o.input += s.input
			o.cached += s.cached
			o.ttft[slice] = append(o.ttft[slice], s.ttft.Seconds())
			o.end[slice] = append(o.end[slice], s.end.Seconds())
		}
	}
	slices.Sort(late)
	p.late = late[len(late)*99/100]
}

func (o *outcome) compared() bool { return float64(o.failed) <= maxFailed*float64(len(o.samples)) }

func (p *played) void() bool { return p.late > maxLate }
