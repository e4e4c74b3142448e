package main

import (
	"context"
	"errors"
	"time"

	"github.com/penstock-project/penstock/conformance/bench/world"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/xds/resource"
)

// routeChanges is a rig with a follower, on which it measures changes of single routes.
type routeChanges struct {
	*rig
	follower  *follower
	revision  int
	time, cpu []time.Duration
	stages    []stages
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

// one changes a route. It returns the time from the store's commit to the last byte at the proxy,
// and the CPU time of this process until the ACK.
func (c *routeChanges) one(ctx context.Context, how func(...store.Op) error) (took, cpu time.Duration, err error) {
	c.revision++
	i := c.revision * 37 % c.world.Hosts // another listener each time
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
	err = c.acked(ctx, resource.Ref{Type: resource.RouteConfiguration, Name: c.world.Chain(i)})
	return took, cpuTime() - used, err
}

// measure makes some incremental changes.
func (c *routeChanges) measure(ctx context.Context, n int) error {
	for range n {
		took, cpu, err := c.one(ctx, c.change)
		if err != nil {
			return err
		}
		c.time, c.cpu, c.stages = append(c.time, took), append(c.cpu, cpu), append(c.stages, c.last)
	}
	return nil
}

// measureChange measures a route's change among 5,000 and among 100, in turns, and a full
// translation for comparison.
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
			// The incremental translator has not seen that change, so it catches up before its next
			// one.
			if err := large.catchUp(); err != nil {
				return err
			}
		}
	}
	at100, at5000, rebuild := median(small.time), median(large.time), median(rebuilds)
	out("change_growth", "", float64(at5000)/float64(at100))
	out("change_growth", "at_100", milliseconds(at100))
	out("change_growth", "at_5000", milliseconds(at5000))
	var stored, translated, committed, delivered []time.Duration
	for i, s := range large.stages {
		stored, translated, committed = append(stored, s.store), append(translated, s.translate),
			append(committed, s.commit)
		delivered = append(delivered, large.time[i]-s.store-s.translate-s.commit)
	}
	out("change_growth", "store", milliseconds(median(stored)))
	out("change_growth", "translate", milliseconds(median(translated)))
	out("change_growth", "commit", milliseconds(median(committed)))
	out("change_growth", "deliver", milliseconds(median(delivered)))
	out("change_cpu", "", milliseconds(mean(large.cpu)))
	out("change_cpu", "median", milliseconds(median(large.cpu)))
	out("change_vs_rebuild", "", float64(at5000)/float64(rebuild))
	out("change_vs_rebuild", "rebuild", milliseconds(rebuild))
	return nil
}

// catchUp passes the changes of a rebuild to the incremental translator.
func (c *routeChanges) catchUp() error {
	view := c.store.View()
	return c.commit(view.Revision(), c.translator.Update(view, store.Everything(view)))
}

func mean(list []time.Duration) (sum time.Duration) {
	for _, d := range list {
		sum += d
	}
	return sum / time.Duration(max(len(list), 1))
}

// measureCleartext measures a route's change among 5,000 that share one port and so one route
// configuration.
func measureCleartext(ctx context.Context, _ config, out report) error {
	c, err := newRouteChanges(ctx, world.Cleartext5000)
	if err != nil {
		return err
	}
	defer c.close()
	if err := c.measure(ctx, 100); err != nil {
		return err
	}
	out("change_cleartext", "", milliseconds(mean(c.cpu)))
	out("change_cleartext", "median", milliseconds(median(c.cpu)))
	out("change_cleartext", "time", milliseconds(median(c.time)))
	return nil
}
