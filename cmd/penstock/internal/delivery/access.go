package delivery

import (
	"context"
	"sync"
	"time"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/translator/model"
	"github.com/penstock-project/penstock/xds/cache"
	"github.com/penstock-project/penstock/xds/resource"
)

// AccessConfig configures an Access.
type AccessConfig struct {
	Cache *cache.Cache
	// Drain is how long a Gateway may pick from a pool without routes, for streams of removed
	// listeners.
	Drain time.Duration
	// Lagging reports whether the objects may be outdated; nil: never.
	Lagging func() bool
}

// Access decides which pools the proxies of a Gateway may pick from: pools that its routes use, or
// used within the drain time. The picker waits up to 0.75 s for access, because an Envoy may have
// received the route from another process.
type Access struct {
	cfg AccessConfig

	mu      sync.Mutex
	left    map[use]time.Time // when the permission of an ended use expires
	changed chan struct{}     // closed and replaced with each commit
}

type use struct {
	gateway string
	pool    objectid.Target
}

// NewAccess makes an Access.
func NewAccess(cfg AccessConfig) *Access {
	if cfg.Lagging == nil {
		cfg.Lagging = func() bool { return false }
	}
	return &Access{cfg: cfg, left: map[use]time.Time{}, changed: make(chan struct{})}
}

// Steps implements Part.
func (a *Access) Steps() []Step {
	return []Step{
		{Shrink, func(_ context.Context, c *Change) { a.leave(c, time.Now()) }}, // before the cache drops the clusters
		{Grow, func(context.Context, *Change) { a.notify() }},
	}
}

func (a *Access) leave(c *Change, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for u, until := range a.left {
		if !until.After(now) {
			delete(a.left, u)
		}
	}
	for _, d := range c.Output.Deltas {
		for _, ref := range d.Removes {
			if pool, ok := pickedIn(ref); ok {
				a.left[use{d.Gateway, pool}] = now.Add(a.cfg.Drain)
			}
		}
	}
}

func pickedIn(ref resource.Ref) (objectid.Target, bool) {
	if ref.Type != resource.Cluster {
		return objectid.Target{}, false
	}
	id, ok := model.ParseClusterID(ref.Name)
	pool := id.Pool()
	return pool, ok && !pool.IsZero()
}

func (a *Access) notify() {
	a.mu.Lock()
	defer a.mu.Unlock()
	close(a.changed)
	a.changed = make(chan struct{})
}

// Allowed implements picker.Access.
func (a *Access) Allowed(gateway string, id objectid.Target) (allowed bool, changed <-chan struct{}) {
	if id.IsZero() {
		return false, nil
	}
	a.mu.Lock()
	changed, until := a.changed, a.left[use{gateway, id}]
	a.mu.Unlock() // changed is read first, so that the caller misses no change
	kinds, cluster := []model.ClusterKind{model.PoolKind}, model.PoolCluster(id.Namespace, id.Name)
	switch {
	case id.Import:
		kinds = []model.ClusterKind{model.MembersKind}
	case id.Member != "":
		kinds, cluster.Member = []model.ClusterKind{model.ImportKind, model.ParentKind, model.PeerKind}, id.Member
	}
	has := func(c model.ClusterID) bool {
		return a.cfg.Cache.Resource(gateway, resource.Ref{Type: resource.Cluster, Name: c.String()}) != nil
	}
	for _, kind := range kinds {
		for _, v := range []model.ClusterVariant{model.Plain, model.LastVariant, model.HopsVariant} {
			if has(cluster.WithKind(kind).As(v)) {
				return true, changed
			}
		}
	}
	return time.Now().Before(until), changed
}

// Lagging implements picker.Access.
func (a *Access) Lagging() bool { return a.cfg.Lagging() }
