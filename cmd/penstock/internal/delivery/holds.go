package delivery

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/translator"
	"github.com/penstock-project/penstock/translator/model"
	"github.com/penstock-project/penstock/xds/cache"
	"github.com/penstock-project/penstock/xds/resource"
)

const (
	// holdTimeout is how long a removal waits until the pickers of peers drop the endpoint. Peers
	// usually need milliseconds.
	holdTimeout = 300 * time.Millisecond
	// maxHold bounds the wait if the pool keeps shrinking.
	maxHold = 3 * holdTimeout
)

// HoldsConfig configures a Holds.
type HoldsConfig struct {
	Cache *Linger
	Names Names
}

// Holds commits changes, but defers removals of endpoints that a peer's picker may still name,
// because any Envoy may call any picker. A hold defers changes of a pool's clusters and endpoints,
// and of the resources that they name. It ends at its deadline, or when all pickers name the same
// endpoints.
type Holds struct {
	cfg      HoldsConfig
	released chan struct{}
	changed  chan struct{}

	mu    sync.Mutex // held during a commit, so that the latest change of a resource wins
	pools map[objectid.Target]*hold
	items map[item]*pending
	ended chan struct{}
}

type hold struct {
	digest          string
	begun, deadline time.Time
}

type item struct {
	gateway string
	ref     resource.Ref
}

type pending struct {
	pools  map[objectid.Target]bool
	upsert *resource.Resource // nil: a removal
	rev    uint64
	trace  trace.SpanContext
}

// NewHolds makes a Holds.
func NewHolds(cfg HoldsConfig) *Holds {
	return &Holds{cfg: cfg, released: make(chan struct{}, 1), changed: make(chan struct{}, 1),
		pools: map[objectid.Target]*hold{}, items: map[item]*pending{}, ended: make(chan struct{})}
}

// Steps implements Part.
func (h *Holds) Steps() []Step { return []Step{{Commit, h.commit}} }

// hold begins holds for pools with fewer endpoints. It runs before the commit.
func (h *Holds) hold(pools map[objectid.Target]naming) {
	digests := map[objectid.Target]string{}
	for name, named := range pools {
		digests[name] = named.digest
	}
	h.cfg.Names.Publish(digests)
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	for name, named := range pools {
		current := h.pools[name]
		if current != nil {
			current.digest = named.digest
		}
		if !named.fewer || len(h.cfg.Names.Behind(name, named.digest)) == 0 {
			continue
		}
		if current == nil {
			current = &hold{digest: named.digest, begun: now}
			h.pools[name] = current
		}
		current.deadline = now.Add(holdTimeout)
		if latest := current.begun.Add(maxHold); latest.Before(current.deadline) {
			current.deadline = latest
		}
		poke(h.changed)
	}
}

func (h *Holds) drop(pool objectid.Target) {
	h.cfg.Names.Retract(pool)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.pools[pool] != nil {
		h.release(pool)
	}
}

func (h *Holds) held(pool objectid.Target) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.pools[pool] != nil
}

func (h *Holds) wait(ctx context.Context, pool objectid.Target) error {
	for {
		h.mu.Lock()
		held, ended := h.pools[pool] != nil, h.ended
		h.mu.Unlock()
		if !held {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ended:
		}
	}
}

func (h *Holds) commit(_ context.Context, c *Change) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var batches []cache.Batch
	for _, d := range c.Output.Deltas {
		d = d.WithEarlier()
		b := cache.Batch{Gateway: d.Gateway, Revision: c.Revision, Upserts: d.Upserts, Removes: d.Removes,
			Trace: c.Trace}
		if len(h.pools) > 0 {
			h.keep(&b, d)
		}
		batches = append(batches, b)
	}
	h.cfg.Cache.Commit(batches...)
}

// keep adds the changes of d to b, or to h.items if a hold defers them. The caller holds mu.
func (h *Holds) keep(b *cache.Batch, d translator.Delta) {
	for _, ref := range d.Removes {
		delete(h.items, item{d.Gateway, ref})
		if ref.Type == resource.Cluster {
			delete(h.items, item{d.Gateway, resource.Ref{Type: resource.Endpoints, Name: ref.Name}})
		}
	}
	b.Upserts = slices.DeleteFunc(slices.Clone(d.Upserts), func(r *resource.Resource) bool {
		at := item{d.Gateway, r.Ref}
		pool := poolOf(r.Ref)
		if h.pools[pool] == nil || h.cfg.Cache.cache.Resource(d.Gateway, r.Ref) == nil {
			delete(h.items, at)
			return false
		}
		h.items[at] = &pending{pools: map[objectid.Target]bool{pool: true}, upsert: r, rev: b.Revision, trace: b.Trace}
		return true
	})
	needed := h.needed(d.Gateway)
	b.Removes = slices.DeleteFunc(slices.Clone(d.Removes), func(ref resource.Ref) bool {
		pools := needed[ref]
		if pools == nil {
			return false
		}
		h.items[item{d.Gateway, ref}] = &pending{pools: maps.Clone(pools), rev: b.Revision, trace: b.Trace}
		return true
	})
}

func poolOf(ref resource.Ref) objectid.Target {
	if ref.Type != resource.Cluster && ref.Type != resource.Endpoints {
		return objectid.Target{}
	}
	id, ok := model.ParseClusterID(ref.Name)
	if !ok || id.Kind != model.PoolKind && id.Kind != model.ImportKind {
		return objectid.Target{}
	}
	return objectid.Target{Pool: objectid.Pool{Namespace: id.Namespace, Name: id.Name}, Member: id.Member}
}

// needed returns the resources that held resources name in the cache, directly or indirectly, with
// the pools of these holds. The caller holds mu.
func (h *Holds) needed(gateway string) map[resource.Ref]map[objectid.Target]bool {
	out := map[resource.Ref]map[objectid.Target]bool{}
	var follow func(ref resource.Ref, pool objectid.Target)
	follow = func(ref resource.Ref, pool objectid.Target) {
		r := h.cfg.Cache.cache.Resource(gateway, ref)
		if r == nil {
			return
		}
		for _, named := range r.Refs {
			if out[named] == nil {
				out[named] = map[objectid.Target]bool{}
			}
			if !out[named][pool] {
				out[named][pool] = true
				follow(named, pool)
			}
		}
	}
	for at, p := range h.items {
		if at.gateway == gateway && p.upsert != nil {
			for pool := range p.pools {
				follow(at.ref, pool)
			}
		}
	}
	return out
}

// release ends the hold of a pool, and commits changes that no other hold defers. The caller holds
// mu.
func (h *Holds) release(pool objectid.Target) {
	delete(h.pools, pool)
	batches := map[string]*cache.Batch{}
	for at, p := range h.items {
		if delete(p.pools, pool); len(p.pools) > 0 {
			continue
		}
		delete(h.items, at)
		b := batches[at.gateway]
		if b == nil {
			b = &cache.Batch{Gateway: at.gateway}
			batches[at.gateway] = b
		}
		if p.upsert != nil {
			b.Upserts = append(b.Upserts, p.upsert)
		} else {
			b.Removes = append(b.Removes, at.ref)
		}
		if p.rev >= b.Revision {
			b.Revision, b.Trace = p.rev, p.trace
		}
	}
	for _, gateway := range slices.Sorted(maps.Keys(batches)) {
		b := batches[gateway]
		slices.SortFunc(b.Upserts, func(a, b *resource.Resource) int { return a.Compare(b.Ref) })
		slices.SortFunc(b.Removes, resource.Ref.Compare)
		h.cfg.Cache.Commit(*b)
	}
	close(h.ended)
	h.ended = make(chan struct{})
	poke(h.released)
}

// Run ends the holds that are due, until ctx ends.
func (h *Holds) Run(ctx context.Context) error {
	for {
		next := time.NewTimer(h.check(time.Now()))
		select {
		case <-ctx.Done():
			next.Stop()
			return ctx.Err()
		case <-h.changed:
		case <-h.cfg.Names.Changed():
		case <-next.C:
		}
		next.Stop()
	}
}

// check ends the holds that are due, and returns the time until its next call. A late peer delays
// no hold until it publishes again.
func (h *Holds) check(now time.Time) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	for name, waiting := range h.pools {
		if !waiting.deadline.After(now) {
			h.cfg.Names.MarkLate(h.cfg.Names.Behind(name, waiting.digest)...)
		}
	}
	next := time.Hour
	for name, waiting := range maps.Clone(h.pools) {
		if len(h.cfg.Names.Behind(name, waiting.digest)) == 0 {
			h.release(name)
			continue
		}
		next = min(next, waiting.deadline.Sub(now))
	}
	return next
}
