package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/penstock-project/penstock/conformance/bench/proxy"
	"github.com/penstock-project/penstock/conformance/bench/world"
	"github.com/penstock-project/penstock/xds/resource"
)

// probe is a missing Secret. ADS answers a proxy in order, so its removal proves that earlier
// requests were answered.
const probe = "secret/default/no-such-secret"

type crowd struct {
	proxies []*proxy.Proxy

	answered atomic.Int64
	resent   atomic.Int64
	ready    chan struct{}
	at       time.Time // valid after ready closes
}

func gather(ctx context.Context, address string, n int, requests [][]byte) (*crowd, error) {
	c := &crowd{proxies: make([]*proxy.Proxy, n), ready: make(chan struct{})}
	var group errgroup.Group
	for i := range n {
		group.Go(func() error { return c.join(ctx, i, address, requests) })
	}
	if err := group.Wait(); err != nil {
		err = errors.Join(err, c.errors())
		c.close()
		return nil, fmt.Errorf("connect a proxy: %w", err)
	}
	return c, nil
}

func (c *crowd) join(ctx context.Context, i int, address string, requests [][]byte) error {
	p, err := proxy.Connect(ctx,
		proxy.Config{Address: address, Node: fmt.Sprint("bench-", i), Cluster: world.Gateway, Handle: c.handle})
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

func resume(ctx context.Context, address string, n int, have proxy.Have) (*crowd, time.Time, error) {
	c, err := gather(ctx, address, n, append(proxy.Resumption(have), proxy.Subscription(resource.Secret, probe)))
	if err != nil {
		return nil, time.Time{}, err
	}
	select {
	case <-c.ready:
		return c, c.at, nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-time.After(timeout):
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
	_ = group.Wait()
}

func (c *crowd) handle(r proxy.Response) {
	if slices.Contains(r.Removed, probe) && int(c.answered.Add(1)) == len(c.proxies) {
		c.at = r.At
		close(c.ready)
	}
	c.resent.Add(int64(len(r.Items)))
}

func (c *crowd) errors() error {
	var all []error
	for _, p := range c.proxies {
		if p == nil {
			continue
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
