package learned

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/multicluster/channel"
)

// Delivery reports when Envoys have the stored addresses.
type Delivery interface {
	// Reachable returns once an Envoy is connected to this process or to a peer. waited reports
	// whether that took time.
	Reachable(ctx context.Context) (waited bool, err error)
	// Delivered returns once every Envoy that is connected to this process has the pool's endpoints
	// as of a revision.
	Delivered(ctx context.Context, rev uint64, pool objectid.Target) error
	// Isolated reports that no Envoy is connected here and no peer is reachable, so Reachable may
	// wait long.
	Isolated() bool
}

// Config configures a Keeper.
type Config struct {
	Store    *store.Store
	Delivery Delivery
	// Object returns the name of the object in Store for a pool's addresses; false: no import has
	// the pool.
	Object func(pool objectid.Target) (namespace, name string, ok bool)
	// Peers are the processes with which this process exchanges addresses; nil: none.
	Peers Peers
	// For is how long an address stays after Learn was last called with it. Default: 10 minutes.
	For time.Duration
	Now func() time.Time // nil: time.Now
}

// maxAddresses bounds a pool's addresses. A new address replaces the one that expires first.
const maxAddresses = 1024

// Keeper stores the addresses of all pools. Its methods may be called concurrently.
type Keeper struct {
	cfg Config

	mu    sync.Mutex
	pools map[objectid.Target]map[netip.AddrPort]*address
}

type address struct {
	delivered bool // every Envoy has the address, here and at the peers
	until     time.Time
	published time.Time // the expiry sent to peers
}

// New returns a Keeper without addresses, and subscribes it to its peers.
func New(cfg Config) *Keeper {
	if cfg.For <= 0 {
		cfg.For = 10 * time.Minute
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Peers == nil {
		cfg.Peers = noPeers{}
	}
	k := &Keeper{cfg: cfg, pools: map[objectid.Target]map[netip.AddrPort]*address{}}
	cfg.Peers.Subscribe(k.receive)
	return k
}

// Learn adds addresses to the pool of an exporting cluster. It returns nil once every Envoy has
// them.
func (k *Keeper) Learn(ctx context.Context, pool objectid.Target, addrs []netip.AddrPort) error {
	if k.known(pool, addrs) {
		return nil
	}
	k.mu.Lock()
	until := k.cfg.Now().Add(k.cfg.For)
	for _, a := range addrs {
		k.extend(pool, a, until)
	}
	rev, err := k.write(pool)
	k.mu.Unlock()
	if err != nil {
		return fmt.Errorf("learn endpoints of %s: %w", pool, err)
	}
	waited, err := k.cfg.Delivery.Reachable(ctx)
	if err != nil {
		return fmt.Errorf("wait for an Envoy that needs endpoints of %s: %w", pool, err)
	}
	if waited { // peers may have had no Envoy at the first publication
		k.mu.Lock()
		for _, addr := range addrs {
			k.publish(pool, addr)
		}
		k.mu.Unlock()
	}
	if err := k.deliver(ctx, rev, pool); err != nil {
		return err
	}
	if err := k.cfg.Peers.Acknowledged(ctx); err != nil {
		return fmt.Errorf("endpoints of %s: %w", pool, err)
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

// ackTimeout is how long Learn waits for an Envoy. A frozen Envoy sends no requests that need the
// endpoints.
const ackTimeout = time.Second

func (k *Keeper) deliver(ctx context.Context, rev uint64, pool objectid.Target) error {
	wait, cancel := context.WithTimeout(ctx, ackTimeout)
	defer cancel()
	if err := k.cfg.Delivery.Delivered(wait, rev, pool); err != nil && wait.Err() != context.DeadlineExceeded {
		return fmt.Errorf("wait for Envoy to have new endpoints of %s: %w", pool, err)
	}
	return ctx.Err()
}

// Isolated returns Delivery.Isolated of this Keeper's Config.
func (k *Keeper) Isolated() bool { return k.cfg.Delivery.Isolated() }

func (k *Keeper) known(pool objectid.Target, addrs []netip.AddrPort) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	now, aged := k.cfg.Now(), false
	for _, a := range addrs {
		known := k.pools[pool][a]
		if known == nil || !known.delivered {
			return false
		}
		aged = aged || known.until.Sub(now) < k.cfg.For-k.step()
	}
	for _, a := range addrs {
		if aged {
			k.extend(pool, a, now.Add(k.cfg.For))
		}
	}
	return true
}

// step is the least extension of an expiry that is published. Smaller extensions wait.
func (k *Keeper) step() time.Duration { return k.cfg.For / 10 }

// extend adds an address to a pool, or extends its expiry to until. The caller holds mu.
func (k *Keeper) extend(pool objectid.Target, addr netip.AddrPort, until time.Time) {
	if k.pools[pool] == nil {
		k.pools[pool] = map[netip.AddrPort]*address{}
	}
	a := k.pools[pool][addr]
	if a == nil {
		if len(k.pools[pool]) >= maxAddresses {
			k.dropOldest(pool)
		}
		a = &address{}
		k.pools[pool][addr] = a
	}
	if until.After(a.until) {
		a.until = until
	}
	if a.until.Sub(a.published) > k.step() {
		a.published = a.until
		k.publish(pool, addr)
	}
}

// The caller holds mu.
func (k *Keeper) dropOldest(pool objectid.Target) {
	var oldest netip.AddrPort
	var until time.Time
	for addr, a := range k.pools[pool] {
		if until.IsZero() || a.until.Before(until) || a.until.Equal(until) && addr.Compare(oldest) < 0 {
			oldest, until = addr, a.until
		}
	}
	delete(k.pools[pool], oldest)
}

// The caller holds mu.
func (k *Keeper) publish(pool objectid.Target, addr netip.AddrPort) {
	if a := k.pools[pool][addr]; a != nil {
		k.cfg.Peers.Publish(channel.Item{Key: itemKey(pool, addr), TTL: a.until.Sub(k.cfg.Now())})
	}
}

// The caller holds mu.
func (k *Keeper) write(pool objectid.Target) (uint64, error) {
	namespace, name, ok := k.cfg.Object(pool)
	if !ok {
		delete(k.pools, pool)
		return 0, errors.New("not a pool of an import")
	}
	l := &store.Learned{}
	l.Namespace, l.Name = namespace, name
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

// Run drops expired addresses until ctx ends.
func (k *Keeper) Run(ctx context.Context) error {
	tick := time.NewTicker(k.step())
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
			if err := k.expire(); err != nil {
				return err
			}
		}
	}
}

func (k *Keeper) expire() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.cfg.Now()
	for pool, addrs := range k.pools {
		before := len(addrs)
		maps.DeleteFunc(addrs, func(_ netip.AddrPort, a *address) bool { return now.After(a.until) })
		if len(addrs) == before {
			continue
		}
		if _, err := k.write(pool); err != nil {
			return fmt.Errorf("drop endpoints of %s: %w", pool, err)
		}
	}
	return nil
}
