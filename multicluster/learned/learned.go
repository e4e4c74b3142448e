package learned

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/penstock-project/penstock/discovery/store"
)

// Store takes what was learned. *store.Store is one.
type Store interface {
	Apply(ops ...store.Op) (store.Revision, error)
}

// Delivery follows a revision to the proxies.
type Delivery interface {
	// Delivered returns when every connected Envoy has the endpoints that a revision of the store gives a pool.
	Delivered(ctx context.Context, rev uint64, pool string) error
	// Elsewhere says that no Envoy gets its configuration from this process.
	Elsewhere() bool
}

// Config is what a Keeper needs.
type Config struct {
	Store    Store
	Delivery Delivery
	// For is how long an address stays after it was named last. 10 minutes by default: longer than a retry or a session,
	// short enough that addresses of pods long gone do not pile up.
	For time.Duration
	Now func() time.Time // time.Now if nil
}

// Keeper is what is known of all pools. Safe for use by many.
type Keeper struct {
	cfg Config

	mu    sync.RWMutex
	pools map[string]map[netip.AddrPort]*address
}

type address struct {
	delivered bool
	named     time.Time
}

// New makes a Keeper that knows nothing.
func New(cfg Config) *Keeper {
	if cfg.For <= 0 {
		cfg.For = 10 * time.Minute
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Keeper{cfg: cfg, pools: map[string]map[netip.AddrPort]*address{}}
}

// Learn makes every Envoy know the addresses of a pool, named as model.PoolName does ("namespace/name@cluster"), and
// returns when that is so, or with an error.
func (k *Keeper) Learn(ctx context.Context, pool string, addrs []netip.AddrPort) error {
	if k.known(pool, addrs) {
		return nil
	}
	rev, err := k.add(pool, addrs)
	if err != nil {
		return fmt.Errorf("learn endpoints of %s: %w", pool, err)
	}
	if err := k.cfg.Delivery.Delivered(ctx, rev, pool); err != nil {
		return fmt.Errorf("wait for Envoy to have new endpoints of %s: %w", pool, err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, a := range addrs {
		if known := k.pools[pool][a]; known != nil {
			known.delivered = true
		}
	}
	return nil
}

// Elsewhere says that no Envoy gets its configuration from this process: what is learned here reaches none.
func (k *Keeper) Elsewhere() bool { return k.cfg.Delivery.Elsewhere() }

// known is the way of almost every request: nothing is new.
func (k *Keeper) known(pool string, addrs []netip.AddrPort) bool {
	now := k.cfg.Now()
	k.mu.RLock()
	aged := false
	for _, a := range addrs {
		known := k.pools[pool][a]
		if known == nil || !known.delivered {
			k.mu.RUnlock()
			return false
		}
		aged = aged || now.Sub(known.named) > k.cfg.For/10
	}
	k.mu.RUnlock()
	if aged { // now and then, so that the lock is seldom taken
		k.mu.Lock()
		defer k.mu.Unlock()
		for _, a := range addrs {
			if known := k.pools[pool][a]; known != nil {
				known.named = now
			}
		}
	}
	return true
}

// add stores new addresses and returns the revision that has them.
func (k *Keeper) add(pool string, addrs []netip.AddrPort) (uint64, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.pools[pool] == nil {
		k.pools[pool] = map[netip.AddrPort]*address{}
	}
	for _, a := range addrs {
		if k.pools[pool][a] == nil {
			k.pools[pool][a] = &address{}
		}
		k.pools[pool][a].named = k.cfg.Now()
	}
	return k.write(pool)
}

// write stores what is known of a pool. mu is held.
func (k *Keeper) write(pool string) (uint64, error) {
	namespace, rest, _ := strings.Cut(pool, "/")
	name, cluster, ok := strings.Cut(rest, "@")
	if !ok {
		delete(k.pools, pool)
		return 0, errors.New("it is not a pool of an import")
	}
	l := &store.Learned{}
	l.Namespace, l.Name = namespace, store.LearnedName(name, cluster)
	for _, a := range slices.SortedFunc(maps.Keys(k.pools[pool]), netip.AddrPort.Compare) {
		l.Endpoints = append(l.Endpoints, a.String())
	}
	op := store.LearnedEndpoints.Put(l)
	if len(l.Endpoints) == 0 {
		delete(k.pools, pool)
		op = store.LearnedEndpoints.Delete(store.ID(l))
	}
	rev, err := k.cfg.Store.Apply(op)
	return rev.N, err
}

// Run forgets addresses that nobody has named for long, until its context ends.
func (k *Keeper) Run(ctx context.Context) error {
	tick := time.NewTicker(k.cfg.For / 10)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
			if err := k.forget(); err != nil {
				return err
			}
		}
	}
}

func (k *Keeper) forget() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.cfg.Now()
	for pool, addrs := range k.pools {
		before := len(addrs)
		maps.DeleteFunc(addrs, func(_ netip.AddrPort, a *address) bool { return now.Sub(a.named) > k.cfg.For })
		if len(addrs) == before {
			continue
		}
		if _, err := k.write(pool); err != nil {
			return fmt.Errorf("forget endpoints of %s: %w", pool, err)
		}
	}
	return nil
}
