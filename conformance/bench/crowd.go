package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/penstock-project/penstock/conformance/bench/proxy"
	"github.com/penstock-project/penstock/conformance/bench/world"
	"github.com/penstock-project/penstock/xds/resource"
)

// probe is a secret that no world has. A proxy that asks for it is answered at once, behind everything that it asked for
// before: that is how a crowd knows that it has been served.
const probe = "secret/default/no-such-secret"

// crowd is many proxies with a connection each.
type crowd struct {
	proxies []*proxy.Proxy

	answered atomic.Int64 // probes
	resent   atomic.Int64 // resources that came other than by a change that was waited for
	ready    chan struct{}
	at       time.Time // when the last probe was answered; read after ready

	mu      sync.Mutex
	want    string // a resource that is waited for, and by how many
	left    int
	arrived chan time.Time
}

// gather connects n proxies, so many at once, each of which says the same requests. served, if there is one, returns when
// some of them have been heard, and the next may come.
func gather(ctx context.Context, address string, n, atOnce int, requests [][]byte, served func(int) error) (*crowd, error) {
	c := &crowd{proxies: make([]*proxy.Proxy, n), ready: make(chan struct{}), arrived: make(chan time.Time, 1)}
	for from := 0; from < n; from += atOnce {
		to := min(n, from+atOnce)
		var group errgroup.Group
		for i := from; i < to; i++ {
			group.Go(func() error { return c.join(ctx, i, address, requests) })
		}
		err := group.Wait()
		if err == nil && served != nil {
			err = served(to)
		}
		if err != nil {
			err = errors.Join(err, c.errors())
			c.close()
			return nil, fmt.Errorf("connect a proxy: %w", err)
		}
	}
	return c, nil
}

// join connects one of the proxies.
func (c *crowd) join(ctx context.Context, i int, address string, requests [][]byte) error {
	p, err := proxy.Connect(ctx, proxy.Config{Address: address, Node: fmt.Sprint("bench-", i), Cluster: world.Gateway, Handle: c.handle})
	if err != nil {
		return err
	}
	c.proxies[i] = p
	for _, r := range requests {
		if err := p.Send(r); err != nil {
			return err
		}
	}
	return nil
}

// resume gathers n proxies that come back with what they have, and returns when the last one was answered.
func resume(ctx context.Context, address string, n int, have proxy.Have) (*crowd, time.Time, error) {
	c, err := gather(ctx, address, n, n, append(proxy.Resumption(have), proxy.Subscription(resource.Secret, probe)), nil)
	if err != nil {
		return nil, time.Time{}, err
	}
	select {
	case <-c.ready:
		return c, c.at, nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-time.After(patience):
		err = fmt.Errorf("%d of %d proxies were answered: %w", c.answered.Load(), len(c.proxies), c.errors())
	}
	c.close()
	return nil, time.Time{}, err
}

func (c *crowd) close() {
	var group errgroup.Group
	for _, p := range c.proxies {
		if p != nil {
			group.Go(func() error { p.Close(); return nil })
		}
	}
	_ = group.Wait() // Close has no error
}

// handle is called by every proxy's reader.
func (c *crowd) handle(r proxy.Response) {
	if slices.Contains(r.Removed, probe) && int(c.answered.Add(1)) == len(c.proxies) {
		c.at = r.At
		close(c.ready)
	}
	if len(r.Items) == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.left > 0 && slices.ContainsFunc(r.Items, func(i proxy.Item) bool { return i.Name == c.want }) {
		if c.left--; c.left == 0 {
			c.arrived <- r.At
		}
		return
	}
	c.resent.Add(int64(len(r.Items)))
}

// expect starts to wait for a resource at every proxy.
func (c *crowd) expect(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.want, c.left = name, len(c.proxies)
}

// wait returns when the last proxy has what expect said.
func (c *crowd) wait(ctx context.Context) (time.Time, error) {
	select {
	case at := <-c.arrived:
		return at, nil
	case <-ctx.Done():
		return time.Time{}, ctx.Err()
	case <-time.After(patience):
		return time.Time{}, errors.Join(errors.New("a change did not reach every proxy"), c.errors())
	}
}

// errors are the first few of the proxies'.
func (c *crowd) errors() error {
	var all []error
	for _, p := range c.proxies {
		if p == nil {
			continue // it never came
		}
		if err := p.Err(); err != nil {
			all = append(all, err)
		}
	}
	if n := len(all); n > 3 {
		all = append(all[:3], fmt.Errorf("and %d more", n-3))
	}
	return errors.Join(all...)
}
