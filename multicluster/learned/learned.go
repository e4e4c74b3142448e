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
	"github.com/penstock-project/penstock/multicluster/channel"
)

// Store takes what was learned. *store.Store is one.
type Store interface {
	Apply(ops ...store.Op) (store.Revision, error)
}

// Delivery follows a revision to the proxies.
type Delivery interface {
	// Reachable returns when some Envoy gets its configuration from this process, or from one that Peers reach; waited says
	// that none did at first.
	Reachable(ctx context.Context) (waited bool, err error)
	// Delivered returns when every Envoy that is connected to this process has the endpoints that a revision of the store
	// gives a pool.
	Delivered(ctx context.Context, rev uint64, pool string) error
	// Isolated says that Reachable may wait for long: no Envoy is here, and no other process can be told.
	Isolated() bool
}

// Peers are the other processes that serve the same Envoys. *replica.Topic is one.
type Peers interface {
	Tell(facts ...channel.Fact)
	Withdraw(names ...string)
	// Heard returns when what was told is in effect at all of them that are not late.
	Heard(ctx context.Context) error
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
	cfg   Config
	peers Peers

	mu    sync.RWMutex
	pools map[string]map[netip.AddrPort]*address
}

type address struct {
	delivered bool // every Envoy has it, here and at the peers
	until     time.Time
	told      time.Time // what the peers know of until
}

// New makes a Keeper that knows nothing.
func New(cfg Config) *Keeper {
	if cfg.For <= 0 {
		cfg.For = 10 * time.Minute
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Keeper{cfg: cfg, peers: nobody{}, pools: map[string]map[netip.AddrPort]*address{}}
}

// Share has the Keeper tell other processes what it learns; what they tell goes to Hear. Call it before all else.
func (k *Keeper) Share(peers Peers) { k.peers = peers }

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
	waited, err := k.cfg.Delivery.Reachable(ctx)
	if err != nil {
		return fmt.Errorf("wait for an Envoy to tell of endpoints of %s: %w", pool, err)
	}
	if waited { // it may be at a process that had none when it was told
		k.tell(pool, addrs)
	}
	if err := k.deliver(ctx, rev, pool); err != nil {
		return err
	}
	if err := k.peers.Heard(ctx); err != nil {
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

// patience is how long an Envoy may take to acknowledge endpoints: one that is frozen must not keep others from what they ask
// for, and asks for nothing itself.
const patience = time.Second

// deliver returns when the Envoys of this process have a revision, or are late, or with the context's error.
func (k *Keeper) deliver(ctx context.Context, rev uint64, pool string) error {
	wait, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := k.cfg.Delivery.Delivered(wait, rev, pool); err != nil && wait.Err() != context.DeadlineExceeded {
		return fmt.Errorf("wait for Envoy to have new endpoints of %s: %w", pool, err)
	}
	return ctx.Err()
}

// Isolated says that what is learned here may reach no Envoy.
func (k *Keeper) Isolated() bool { return k.cfg.Delivery.Isolated() }

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
		aged = aged || known.until.Sub(now) < k.cfg.For-k.step()
	}
	k.mu.RUnlock()
	if aged { // now and then, so that the lock is seldom taken
		k.mu.Lock()
		defer k.mu.Unlock()
		for _, a := range addrs {
			if known := k.pools[pool][a]; known != nil {
				k.extend(pool, a, now.Add(k.cfg.For))
			}
		}
	}
	return true
}

// step is how exact ends are: what moves an end by less is no news.
func (k *Keeper) step() time.Duration { return k.cfg.For / 10 }

// add stores new addresses and returns the revision that has them.
func (k *Keeper) add(pool string, addrs []netip.AddrPort) (uint64, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	until := k.cfg.Now().Add(k.cfg.For)
	for _, a := range addrs {
		k.extend(pool, a, until)
	}
	return k.write(pool)
}

// extend moves an address's end, and tells the peers if that is news. mu is held.
func (k *Keeper) extend(pool string, addr netip.AddrPort, until time.Time) {
	if k.pools[pool] == nil {
		k.pools[pool] = map[netip.AddrPort]*address{}
	}
	a := k.pools[pool][addr]
	if a == nil {
		a = &address{}
		k.pools[pool][addr] = a
	}
	if until.After(a.until) {
		a.until = until
	}
	if a.until.Sub(a.told) > k.step() {
		a.told = a.until
		k.peers.Tell(channel.Fact{Name: factName(pool, addr), TTL: a.until.Sub(k.cfg.Now())})
	}
}

// tell says addresses again.
func (k *Keeper) tell(pool string, addrs []netip.AddrPort) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	for _, addr := range addrs {
		if a := k.pools[pool][addr]; a != nil {
			k.peers.Tell(channel.Fact{Name: factName(pool, addr), TTL: a.until.Sub(k.cfg.Now())})
		}
	}
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
		maps.DeleteFunc(addrs, func(addr netip.AddrPort, a *address) bool {
			over := now.After(a.until)
			if over {
				k.peers.Withdraw(factName(pool, addr))
			}
			return over
		})
		if len(addrs) == before {
			continue
		}
		if _, err := k.write(pool); err != nil {
			return fmt.Errorf("forget endpoints of %s: %w", pool, err)
		}
	}
	return nil
}
