package delivery

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/translator/envoy"
	"github.com/penstock-project/penstock/translator/model"
	"github.com/penstock-project/penstock/xds/cache"
	"github.com/penstock-project/penstock/xds/resource"
)

// LingerTimeout is how long clusters outlive their last route. Envoy waits 2 s for an ordinary
// pick.
const LingerTimeout = 5 * time.Second

// Linger commits to the cache, and keeps these endpoints for the linger timeout:
//   - The pods and internal listeners (hops) of an import's removed clusters. A request that has
//     chosen such a cluster may still wait for its pick, and the cluster must contain the picked
//     address. Envoy keeps the cluster equally long (publish.Config.Linger).
//   - The pods of an import that all leave a cluster at once. This happens when the import stops
//     declaring endpoints, before its remote picker has named any.
//   - External pickers that are all replaced. Envoy calls the new pickers only after a health
//     check, and would answer 503 meanwhile.
//   - Endpoints of datagrams while they drain, for the answers in flight.
type Linger struct {
	cache   *cache.Cache
	timeout time.Duration
	log     *slog.Logger
	rearm   chan struct{}

	mu      sync.Mutex // held during a commit, so that a returning cluster is not removed
	removed map[place]removedCluster
	left    map[place]leftEndpoints
}

type place struct{ gateway, cluster string }

type removedCluster struct {
	cluster *resource.Resource
	rev     uint64
	until   time.Time
}

type leftEndpoints struct {
	pods      []netip.AddrPort // nil for clusters of pickers and of datagrams, whose endpoints are in the cache
	endpoints *resource.Resource
	rev       uint64
	until     time.Time
}

// NewLinger makes a Linger; timeout is LingerTimeout except in tests.
func NewLinger(c *cache.Cache, timeout time.Duration, log *slog.Logger) *Linger {
	return &Linger{cache: c, timeout: timeout, log: log, rearm: make(chan struct{}, 1),
		removed: map[place]removedCluster{}, left: map[place]leftEndpoints{}}
}

func importedPool(cluster string) (objectid.Target, bool) {
	id, _ := model.ParseClusterID(cluster)
	return id.Imported()
}

func lingers(cluster string) bool {
	id, _ := model.ParseClusterID(cluster)
	_, ok := id.Imported()
	return ok || id.Kind == model.MembersKind
}

// Commit commits batches, except removals that linger.
func (d *Linger) Commit(batches ...cache.Batch) {
	d.mu.Lock()
	defer d.mu.Unlock()
	until := time.Now().Add(d.timeout)
	for i, b := range batches {
		batches[i].Removes = slices.DeleteFunc(slices.Clone(b.Removes), func(ref resource.Ref) bool {
			if ref.Type == resource.Endpoints {
				delete(d.left, place{b.Gateway, ref.Name}) // former endpoints end with their cluster
			}
			ok := lingers(ref.Name)
			cluster := d.cache.Resource(b.Gateway, resource.Ref{Type: resource.Cluster, Name: ref.Name})
			if !ok || ref.Type != resource.Endpoints || cluster == nil {
				return false
			}
			d.removed[place{b.Gateway, ref.Name}] = removedCluster{cluster, b.Revision, until}
			poke(d.rearm)
			return true
		})
		batches[i].Upserts = slices.Clone(b.Upserts)
		for j, r := range b.Upserts {
			if r.Type == resource.Endpoints {
				delete(d.removed, place{b.Gateway, r.Name})
				batches[i].Upserts[j] = d.withLeft(&b, r, until)
			}
		}
	}
	d.cache.Commit(batches...)
}

// addFormer adds former endpoints to a cluster's new ones. left reports whether an endpoint has
// left.
type addFormer func(endpoints, before *resource.Resource) (with *resource.Resource, left bool, err error)

func (d *Linger) withFormer(b *cache.Batch, r *resource.Resource, until time.Time, add addFormer) *resource.Resource {
	at := place{b.Gateway, r.Name}
	former, ok := d.left[at]
	before := d.cache.Resource(b.Gateway, r.Ref)
	if before == nil {
		return r
	}
	with, left, err := add(r, before)
	if err != nil {
		d.log.Error("the endpoints of a cluster cannot be read", "gateway", b.Gateway, "cluster", r.Name, "error", err)
		return r
	}
	if left {
		former.until, ok = until, true
		poke(d.rearm)
	}
	if !ok {
		return r
	}
	former.endpoints, former.rev = r, b.Revision
	d.left[at] = former
	return with
}

// withLeft keeps endpoints that leave: all pods of an import, all external pickers, or any datagram
// endpoints.
func (d *Linger) withLeft(b *cache.Batch, r *resource.Resource, until time.Time) *resource.Resource {
	id, _ := model.ParseClusterID(r.Name)
	switch {
	case id.External():
		return d.withFormer(b, r, until, envoy.AddFormer)
	case id.Kind == model.DatagramKind:
		return d.withFormer(b, r, until, envoy.AddDraining)
	}
	if _, ok := id.Imported(); !ok {
		return r
	}
	at := place{b.Gateway, r.Name}
	former, ok := d.left[at]
	before := former.endpoints
	if !ok {
		before = d.cache.Resource(b.Gateway, r.Ref)
	}
	if before == nil {
		return r
	}
	old, err := envoy.Pods(before)
	pods, bad := envoy.Pods(r)
	if err = errors.Join(err, bad); err != nil {
		d.log.Error("the endpoints of a cluster cannot be read", "gateway", b.Gateway, "cluster", r.Name, "error", err)
		return r
	}
	if len(old) > 0 && !slices.ContainsFunc(old, func(pod netip.AddrPort) bool { return slices.Contains(pods, pod) }) {
		former.pods, former.until, ok = old, until, true
		poke(d.rearm)
	}
	if !ok {
		return r
	}
	ref := resource.Ref{Type: resource.Cluster, Name: r.Name}
	cluster := d.cache.Resource(b.Gateway, ref)
	if i := slices.IndexFunc(b.Upserts, func(u *resource.Resource) bool { return u.Ref == ref }); i >= 0 {
		cluster = b.Upserts[i]
	}
	if cluster == nil {
		return r
	}
	with, err := envoy.AddEndpoints(cluster, r, former.pods)
	if err != nil {
		d.log.Error("leaving endpoints of a cluster cannot be kept for requests that wait for a pick", "gateway",
			b.Gateway, "cluster", r.Name, "error", err)
		return r
	}
	former.endpoints, former.rev = r, b.Revision
	d.left[at] = former
	return with
}

// Learn adds addresses to lingering clusters of a pool, and returns the names of the clusters.
func (d *Linger) Learn(pool objectid.Target, addrs []netip.AddrPort) (clusters []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for at, removed := range d.removed {
		if imported, _ := importedPool(at.cluster); imported != pool {
			continue
		}
		endpoints := d.cache.Resource(at.gateway, resource.Ref{Type: resource.Endpoints, Name: at.cluster})
		with, err := envoy.AddEndpoints(removed.cluster, endpoints, addrs)
		if err != nil {
			d.log.Error("endpoints cannot be added to a removed cluster", "gateway", at.gateway, "cluster", at.cluster,
				"error", err)
			continue
		}
		d.cache.Commit(cache.Batch{Gateway: at.gateway, Revision: removed.rev, Upserts: []*resource.Resource{with}})
		clusters = append(clusters, at.cluster)
	}
	return clusters
}

// Run removes expired clusters and endpoints until ctx ends.
func (d *Linger) Run(ctx context.Context) error {
	for {
		next := time.NewTimer(d.expire(time.Now()))
		select {
		case <-ctx.Done():
			next.Stop()
			return ctx.Err()
		case <-d.rearm:
		case <-next.C:
		}
		next.Stop()
	}
}

func (d *Linger) expire(now time.Time) time.Duration {
	next := time.Hour
	d.mu.Lock()
	defer d.mu.Unlock()
	for at, gone := range d.removed {
		if left := gone.until.Sub(now); left > 0 {
			next = min(next, left)
			continue
		}
		delete(d.removed, at)
		d.cache.Commit(cache.Batch{Gateway: at.gateway, Revision: gone.rev,
			Removes: []resource.Ref{{Type: resource.Endpoints, Name: at.cluster}}})
	}
	for at, gone := range d.left {
		if left := gone.until.Sub(now); left > 0 {
			next = min(next, left)
			continue
		}
		delete(d.left, at)
		d.cache.Commit(cache.Batch{Gateway: at.gateway, Revision: gone.rev,
			Upserts: []*resource.Resource{gone.endpoints}})
	}
	return next
}

// LearnedObject returns the object that has the endpoints named by an imported pool's remote
// picker; ok is false for other pools.
func LearnedObject(pool objectid.Target) (namespace, name string, ok bool) {
	return pool.Namespace, store.LearnedName(pool.Name, pool.Member), pool.Member != ""
}

func learnedAddresses(r store.Reader, pool objectid.Target) (out []netip.AddrPort) {
	namespace, name, _ := LearnedObject(pool)
	l, ok := store.LearnedEndpoints.Get(r, objectid.Join(namespace, name))
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
