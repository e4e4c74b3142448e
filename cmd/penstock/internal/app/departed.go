package app

import (
	"context"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/translator/envoy"
	"github.com/penstock-project/penstock/translator/model"
	"github.com/penstock-project/penstock/xds/cache"
	"github.com/penstock-project/penstock/xds/resource"
)

// departed stands before the cache and keeps the endpoints of imports' clusters there for a while after the clusters have
// left: a request that has chosen one may still wait for its pick, and what a remote picker names then has to be among
// them. Envoy has such a cluster for as long (publish.Config.Linger); translation does not know of it any more.
type departed struct {
	cache *cache.Cache
	keep  time.Duration
	log   *slog.Logger
	wake  chan struct{}

	mu   sync.Mutex // held while the cache is written to, so that a cluster that comes again wins
	left map[place]leftover
}

// place is a cluster of a gateway.
type place struct{ gateway, cluster string }

// leftover is a cluster that has left.
type leftover struct {
	cluster *resource.Resource // as it was
	rev     uint64             // with which it left
	until   time.Time          // when its endpoints leave too
}

func newDeparted(c *cache.Cache, keep time.Duration, log *slog.Logger) *departed {
	return &departed{cache: c, keep: keep, log: log, wake: make(chan struct{}, 1), left: map[place]leftover{}}
}

// importedPool is the pool of an import whose pods are the endpoints of a cluster; false for any other cluster.
func importedPool(cluster string) (pool string, ok bool) {
	id, _ := model.ParseClusterID(cluster)
	imported, ok := id.Imported()
	return imported.String(), ok
}

// commit hands batches on to the cache, but for what is kept.
func (d *departed) commit(batches ...cache.Batch) {
	d.mu.Lock()
	defer d.mu.Unlock()
	until := time.Now().Add(d.keep)
	for i, b := range batches {
		batches[i].Removes = slices.DeleteFunc(slices.Clone(b.Removes), func(ref resource.Ref) bool {
			_, ok := importedPool(ref.Name)
			cluster := d.cache.Resource(b.Gateway, resource.Ref{Type: resource.Cluster, Name: ref.Name})
			if !ok || ref.Type != resource.Endpoints || cluster == nil {
				return false
			}
			d.left[place{b.Gateway, ref.Name}] = leftover{cluster, b.Revision, until}
			poke(d.wake)
			return true
		})
		for _, r := range b.Upserts {
			if r.Type == resource.Endpoints {
				delete(d.left, place{b.Gateway, r.Name})
			}
		}
	}
	d.cache.Commit(batches...)
}

// learn has the clusters of a pool that have left know addresses, and returns their names.
func (d *departed) learn(pool string, addrs []netip.AddrPort) (clusters []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for at, was := range d.left {
		if of, _ := importedPool(at.cluster); of != pool {
			continue
		}
		endpoints := d.cache.Resource(at.gateway, resource.Ref{Type: resource.Endpoints, Name: at.cluster})
		with, err := envoy.AddEndpoints(was.cluster, endpoints, addrs)
		if err != nil {
			d.log.Error("endpoints cannot be added to a cluster that has left", "gateway", at.gateway, "cluster", at.cluster, "error", err)
			continue
		}
		d.cache.Commit(cache.Batch{Gateway: at.gateway, Revision: was.rev, Upserts: []*resource.Resource{with}})
		clusters = append(clusters, at.cluster)
	}
	return clusters
}

// Run forgets clusters whose time is over, until ctx ends.
func (d *departed) Run(ctx context.Context) error {
	for {
		next := time.NewTimer(d.forget(time.Now()))
		select {
		case <-ctx.Done():
			next.Stop()
			return ctx.Err()
		case <-d.wake:
		case <-next.C:
		}
		next.Stop()
	}
}

// forget returns how long nothing more has to be forgotten.
func (d *departed) forget(now time.Time) time.Duration {
	next := time.Hour
	d.mu.Lock()
	defer d.mu.Unlock()
	for at, was := range d.left {
		if left := was.until.Sub(now); left > 0 {
			next = min(next, left)
			continue
		}
		delete(d.left, at)
		d.cache.Commit(cache.Batch{Gateway: at.gateway, Revision: was.rev, Removes: []resource.Ref{{Type: resource.Endpoints, Name: at.cluster}}})
	}
	return next
}

// learnedAddresses are what the store has learned of a pool.
func learnedAddresses(r store.Reader, pool string) (out []netip.AddrPort) {
	id, _ := model.ParsePoolID(pool)
	l, ok := store.LearnedEndpoints.Get(r, id.Namespace+"/"+store.LearnedName(id.Name, id.Member))
	if !ok {
		return nil
	}
	for _, text := range l.Endpoints {
		if addr, err := netip.ParseAddrPort(text); err == nil {
			out = append(out, addr)
		}
	}
	return slices.Clip(out)
}
