package plane

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/penstock-project/penstock/translator/model"
)

// learnedFor is how long an address that a remote picker named stays in its cluster after it was named last: longer
// than a retry or a session, short enough that addresses of pods long gone do not pile up.
const learnedFor = 10 * time.Minute

// learner puts addresses that remote pickers named into the store, and so on their way to Envoy, and waits until they
// are there. It implements picker.Learner.
type learner struct {
	plane *Plane

	mu    sync.RWMutex
	pools map[string]map[netip.AddrPort]*learnedAddress
}

type learnedAddress struct {
	known bool // Envoy has acknowledged it
	named time.Time
}

func newLearner(p *Plane) *learner {
	return &learner{plane: p, pools: map[string]map[netip.AddrPort]*learnedAddress{}}
}

// Learn implements picker.Learner.
func (l *learner) Learn(ctx context.Context, pool string, addrs []netip.AddrPort) error {
	if l.allKnown(pool, addrs) {
		return nil
	}
	rev, err := l.add(pool, addrs)
	if err != nil {
		return err
	}
	if err := l.plane.progress.wait(ctx, rev); err != nil {
		return err
	}
	l.plane.mu.Lock()
	cluster, ok := l.plane.translator.PoolCluster(pool)
	l.plane.mu.Unlock()
	if !ok {
		return fmt.Errorf("pool %s is gone", pool)
	}
	if err := l.plane.endpointsKnown(ctx, cluster, model.LastCluster(cluster)); err != nil {
		return fmt.Errorf("wait for Envoy to know new endpoints of %s: %w", pool, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range addrs {
		if known := l.pools[pool][a]; known != nil {
			known.known = true
		}
	}
	return nil
}

// allKnown is the way of almost every request: nothing is new.
func (l *learner) allKnown(pool string, addrs []netip.AddrPort) bool {
	now := time.Now()
	l.mu.RLock()
	stale := false
	for _, a := range addrs {
		known := l.pools[pool][a]
		if known == nil || !known.known {
			l.mu.RUnlock()
			return false
		}
		stale = stale || now.Sub(known.named) > learnedFor/10
	}
	l.mu.RUnlock()
	if stale {
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, a := range addrs {
			if known := l.pools[pool][a]; known != nil {
				known.named = now
			}
		}
	}
	return true
}

// add stores new addresses and returns the revision that has them.
func (l *learner) add(pool string, addrs []netip.AddrPort) (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pools[pool] == nil {
		l.pools[pool] = map[netip.AddrPort]*learnedAddress{}
	}
	for _, a := range addrs {
		if l.pools[pool][a] == nil {
			l.pools[pool][a] = &learnedAddress{}
		}
		l.pools[pool][a].named = time.Now()
	}
	return l.write(pool)
}

// write stores what is learned of a pool. l.mu is held.
func (l *learner) write(pool string) (uint64, error) {
	l.plane.mu.Lock()
	op, ok := l.plane.translator.LearnedOp(pool, slices.Collect(maps.Keys(l.pools[pool])))
	l.plane.mu.Unlock()
	if !ok {
		delete(l.pools, pool)
		return 0, fmt.Errorf("pool %s is not one whose endpoints are learned", pool)
	}
	rev, err := l.plane.store.Apply(op)
	return rev.N, err
}

// Run forgets addresses that nobody has named for long.
func (l *learner) Run(ctx context.Context) error {
	tick := time.NewTicker(learnedFor / 10)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case now := <-tick.C:
			l.forget(now)
		}
	}
}

func (l *learner) forget(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for pool, addrs := range l.pools {
		before := len(addrs)
		maps.DeleteFunc(addrs, func(_ netip.AddrPort, a *learnedAddress) bool { return now.Sub(a.named) > learnedFor })
		if len(addrs) < before {
			_, _ = l.write(pool) // a pool that is gone needs no endpoints
		}
	}
}
