package main

import (
	"context"
	"errors"
	"time"

	"github.com/penstock-project/penstock/conformance/bench/world"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/xds/resource"
)

type routeChanges struct {
	*rig
	follower  *follower
	revision  int
	time, cpu []time.Duration
}

func newRouteChanges(ctx context.Context, size world.Size) (*routeChanges, error) {
	r, err := newRig(size)
	if err != nil {
		return nil, err
	}
	c := &routeChanges{rig: r}
	if c.follower, err = follow(r.address); err != nil {
		c.rig.close()
		return nil, err
	}
	if err := c.follower.complete(ctx, len(r.translator.Resources(world.Gateway))); err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

func (c *routeChanges) close() {
	c.follower.close()
	c.rig.close()
}

// one makes a change. took ends when the proxy has received it, cpu at the ACK.
func (c *routeChanges) one(ctx context.Context, how func(...store.Op) error) (took, cpu time.Duration, err error) {
	c.revision++
	i := c.revision * 37 % c.world.Hosts // a different listener each time
	op := store.HTTPRoutes.Put(c.world.Route(i, c.revision))
	c.follower.drop()
	used, start := cpuTime(), time.Now()
	if err := how(op); err != nil {
		return 0, 0, err
	}
	at, err := c.follower.next(ctx, resource.RouteConfiguration.URL())
	if err != nil {
		return 0, 0, err
	}
	took = at.Sub(start)
	err = c.acked(ctx, resource.Ref{Type: resource.RouteConfiguration, Name: c.world.Routes(i)})
	return took, cpuTime() - used, err
}

func (c *routeChanges) measure(ctx context.Context, n int) error {
	for range n {
		took, cpu, err := c.one(ctx, c.change)
		if err != nil {
			return err
		}
		c.time, c.cpu = append(c.time, took), append(c.cpu, cpu)
	}
	return nil
}

func measureChange(ctx context.Context, _ config, out report) error {
	small, err := newRouteChanges(ctx, world.Routes100)
	if err != nil {
		return err
	}
	defer small.close()
	large, err := newRouteChanges(ctx, world.Routes5000)
	if err != nil {
		return err
	}
	defer large.close()
	const rounds, each = 20, 20
	var rebuilds []time.Duration
	for round := range rounds {
		if err := errors.Join(small.measure(ctx, each), large.measure(ctx, each)); err != nil {
			return err
		}
		if round%4 == 0 {
			took, _, err := large.one(ctx, large.rebuild)
			if err != nil {
				return err
			}
			rebuilds = append(rebuilds, took)
			if err := large.catchUp(); err != nil {
				return err
			}
		}
	}
	at5000 := float64(median(large.time))
	out("change_growth", "", at5000/float64(median(small.time)))
	out("change_growth", "at_5000", milliseconds(median(large.time)))
	out("change_vs_rebuild", "", at5000/float64(median(rebuilds)))
	return nil
}

func (c *routeChanges) catchUp() error {
	view := c.store.View()
	return c.commit(view.Revision(), c.translator.Update(view, store.Everything(view)))
}

func measureCleartext(ctx context.Context, _ config, out report) error {
	c, err := newRouteChanges(ctx, world.Cleartext5000)
	if err != nil {
		return err
	}
	defer c.close()
	const changes = 100
	if err := c.measure(ctx, changes); err != nil {
		return err
	}
	var sum time.Duration
	for _, d := range c.cpu {
		sum += d
	}
	out("change_cleartext", "", milliseconds(sum/changes)) // the mean includes garbage collection
	return nil
}
