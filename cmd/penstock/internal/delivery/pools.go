package delivery

import (
	"context"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/picker"
	"github.com/penstock-project/penstock/picker/endpoint"
	"github.com/penstock-project/penstock/translator"
	"github.com/penstock-project/penstock/translator/model"
)

const (
	// growTimeout bounds the wait for Envoys, because one of them may not answer.
	growTimeout = time.Second
	// hopTimeout replaces growTimeout for a new spill target, which may need a listener with
	// routes.
	hopTimeout   = 5 * time.Second
	maxFallbacks = 8
	// For youngTime after a pool has grown, picks name fallbacks, because Envoy skips endpoints
	// that it lacks. Envoy acknowledges before its workers have new endpoints, and ACKs at other
	// processes are not known here. Envoys of a frozen process reconnect within 13 s.
	youngTime = 15 * time.Second
)

// Picker receives the pools. *picker.Picker implements it.
type Picker interface {
	Update(picker.Pool) error
	Remove(objectid.Target)
}

// EndpointWaiter waits for Envoys. *Envoys implements it.
type EndpointWaiter interface {
	// EndpointsKnown returns when every Envoy has the newest endpoints of these clusters.
	EndpointsKnown(ctx context.Context, clusters ...string) error
}

// PoolsConfig configures a Pools.
type PoolsConfig struct {
	Picker Picker
	Envoys EndpointWaiter
	Holds  *Holds
	// DefaultPool is for gateways that name no pool; zero: the only pool, if there is just one.
	DefaultPool objectid.Pool
	// OnDemand reports whether requests wait for the first server of a pool. Picks then name that
	// server only once Envoys have it. Otherwise they name it at once, to avoid failed requests.
	// May be nil.
	OnDemand func(objectid.Target) bool
	Keep     time.Duration
	Log      *slog.Logger
}

// Pools updates the picker in steps. The picker drops an endpoint before Envoys do, and names a new
// endpoint or spill target after Envoys have it. Picks from a removed pool stay possible for
// PoolsConfig.Keep.
type Pools struct {
	cfg          PoolsConfig
	grow, retire chan struct{}

	mu sync.Mutex
	// updating is true between shrink and grow, while the cache lacks the grown pools.
	updating bool
	current  map[objectid.Target]picker.Pool
	growing  map[objectid.Target]picker.Pool
	young    map[objectid.Target]time.Time
	plain    map[objectid.Target]*model.Pool
	gone     map[objectid.Target]time.Time
	// gateways are pools that are now reached through gateways. Each waits for the removal of the
	// pool of the same name whose servers were reached directly.
	gateways map[objectid.Target]picker.Pool
}

// NewPools makes a Pools.
func NewPools(cfg PoolsConfig) *Pools {
	signal := func() chan struct{} { return make(chan struct{}, 1) }
	return &Pools{
		cfg: cfg, grow: signal(), retire: signal(), current: map[objectid.Target]picker.Pool{},
		growing: map[objectid.Target]picker.Pool{}, young: map[objectid.Target]time.Time{},
		plain: map[objectid.Target]*model.Pool{}, gone: map[objectid.Target]time.Time{},
		gateways: map[objectid.Target]picker.Pool{},
	}
}

// Steps implements Part.
func (s *Pools) Steps() []Step {
	return []Step{
		{Shrink, func(_ context.Context, c *Change) {
			for _, id := range c.Output.PoolsGone {
				s.cfg.Holds.drop(id)
			}
			s.cfg.Holds.hold(s.before(c.Output))
		}},
		{Grow, func(context.Context, *Change) { s.after() }},
	}
}

func (s *Pools) before(out translator.Output) map[objectid.Target]naming {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.updating = true
	changed := map[objectid.Target]naming{}
	for _, name := range out.PoolsGone {
		delete(s.gateways, name)
		s.leave(name)
	}
	for _, pp := range out.Pools {
		name := pp.Pool.Name
		delete(s.gateways, name)
		// the former pool stays, because requests of former routes still need picks
		if former, ok := s.current[name]; ok && pp.Gateways != nil && !former.Gateways {
			s.gateways[name] = pickerPool(pp)
			s.leave(name)
			continue
		}
		relays := pp.Pool.External || pp.Pool.Relay != nil
		if relays && (pp.External == nil || len(pp.External.Addresses) == 0) {
			s.leave(name)
			continue
		}
		if s.plain[name] = pp.Pool; pp.Gateways != nil {
			delete(s.plain, name)
		}
		delete(s.gone, name)
		next := pickerPool(pp)
		changed[name] = names(next, s.current[name])
		s.change(next)
	}
	s.chooseDefault()
	return changed
}

// leave keeps a pool without routes for PoolsConfig.Keep. The caller holds s.mu.
func (s *Pools) leave(name objectid.Target) {
	delete(s.growing, name)
	delete(s.plain, name)
	pool, ok := s.current[name]
	if _, before := s.gone[name]; !ok || before {
		return
	}
	s.gone[name] = time.Now().Add(s.cfg.Keep)
	pool.Metrics.Off, pool.Gone = true, true
	s.set(pool)
	poke(s.retire)
}

// change applies the parts of a pool's change that need not wait for Envoys. The caller holds s.mu.
func (s *Pools) change(next picker.Pool) {
	delete(s.growing, next.ID)
	old, ok := s.current[next.ID]
	if !ok {
		s.set(next)
		return
	}
	now := next
	now.Spill = slices.DeleteFunc(slices.Clone(next.Spill),
		func(place string) bool { return !slices.Contains(old.Spill, place) })
	if len(now.Spill) < len(next.Spill) {
		s.growing[next.ID] = next
	}
	known := intersect(next.Endpoints, old.Endpoints)
	switch {
	case len(known) == len(next.Endpoints):
	case slices.ContainsFunc(known, accepts),
		!slices.ContainsFunc(old.Endpoints, accepts) && s.cfg.OnDemand != nil && s.cfg.OnDemand(next.ID):
		now.Endpoints = known
		s.growing[next.ID] = next
	default:
		// No old endpoint stays. Picks name new and old ones, because Envoy skips endpoints that it
		// lacks.
		now.Endpoints = slices.Concat(next.Endpoints,
			slices.DeleteFunc(slices.Clone(old.Endpoints), named(next.Endpoints)))
		now.Fallbacks = maxFallbacks
		s.growing[next.ID] = next
	}
	s.set(now)
}

func accepts(e endpoint.Spec) bool { return !e.Draining }

func (s *Pools) set(pool picker.Pool) {
	pool.Default = s.current[pool.ID].Default
	s.current[pool.ID] = pool
	if time.Now().Before(s.young[pool.ID]) {
		pool.Fallbacks = maxFallbacks
	}
	if err := s.cfg.Picker.Update(pool); err != nil {
		s.cfg.Log.Error("a pool cannot be picked from as configured; its last good configuration stays", "pool",
			pool.ID.String(), "error", err)
	}
}

// chooseDefault marks the pool for gateways that name no pool. The caller holds s.mu.
func (s *Pools) chooseDefault() {
	want := objectid.Target{Pool: s.cfg.DefaultPool}
	if want.IsZero() {
		local := 0
		for name, p := range s.plain {
			if p.Relay == nil && !p.External {
				local++
				want = name
			}
		}
		switch local {
		case 0:
			want = s.leavingDefault()
		case 1:
		default:
			want = objectid.Target{}
		}
	}
	mark := func(pool picker.Pool, isDefault bool) {
		if pool.Default != isDefault {
			pool.Default = isDefault
			s.current[pool.ID] = pool
			s.set(pool)
		}
	}
	if pool, ok := s.current[want]; ok { // mark the new default first, so that there always is one
		mark(pool, true)
	}
	for name, pool := range s.current {
		mark(pool, name == want)
	}
}

// leavingDefault returns the default pool if it is removed but still picked from; otherwise the
// zero Target. The caller holds s.mu.
func (s *Pools) leavingDefault() objectid.Target {
	for name := range s.gone {
		if s.current[name].Default {
			return name
		}
	}
	return objectid.Target{}
}

func (s *Pools) after() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.updating = false
	if len(s.growing) > 0 {
		poke(s.grow)
	}
}

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Run completes each change once Envoys have it, and removes expired pools.
func (s *Pools) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.finish(ctx) })
	group.Go(func() error { return s.remove(ctx) })
	return group.Wait()
}

func (s *Pools) finish(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.grow:
		case <-s.cfg.Holds.released:
		}
		s.finishGrowing(ctx)
	}
}

func (s *Pools) finishGrowing(ctx context.Context) {
	s.mu.Lock()
	if s.updating {
		s.mu.Unlock()
		return
	}
	var clusters []string
	want, timeout := map[objectid.Target]picker.Pool{}, growTimeout
	for name, pool := range s.growing {
		if s.cfg.Holds.held(name) { // the end of the hold calls finishGrowing again
			continue
		}
		want[name] = pool
		if len(pool.Spill) > len(s.current[name].Spill) {
			timeout = hopTimeout
		}
		clusters = append(clusters, s.plain[name].Cluster.String(), s.plain[name].Last.String())
	}
	s.mu.Unlock()
	slices.Sort(clusters)
	wait, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	_ = s.cfg.Envoys.EndpointsKnown(wait, slices.Compact(clusters)...) // fails only at the timeout
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, pool := range want {
		if now, ok := s.growing[name]; ok && slices.EqualFunc(now.Endpoints, pool.Endpoints, sameEndpoint) &&
			slices.Equal(now.Spill, pool.Spill) {
			delete(s.growing, name)
			s.young[name] = time.Now().Add(youngTime)
			s.set(now)
			poke(s.retire)
		}
	}
}

func (s *Pools) remove(ctx context.Context) error {
	for {
		s.mu.Lock()
		next := s.age()
		for name, until := range s.gone {
			left := time.Until(until)
			if left > 0 {
				next = min(next, left)
				continue
			}
			delete(s.gone, name)
			if next, ok := s.gateways[name]; ok {
				delete(s.gateways, name)
				s.set(next)
				continue
			}
			delete(s.current, name)
			s.cfg.Picker.Remove(name)
		}
		s.mu.Unlock()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.retire:
		case <-time.After(next):
		}
	}
}

// age removes pools from young after youngTime, and returns the time until its next call. The
// caller holds s.mu.
func (s *Pools) age() time.Duration {
	next := time.Hour
	for name, until := range s.young {
		if left := time.Until(until); left > 0 {
			next = min(next, left)
			continue
		}
		delete(s.young, name)
		if pool, ok := s.current[name]; ok {
			s.set(pool)
		}
	}
	return next
}

func sameEndpoint(a, b endpoint.Spec) bool { return a.Addr == b.Addr }

func intersect(next, old []endpoint.Spec) []endpoint.Spec {
	known := map[netip.AddrPort]bool{}
	for _, e := range old {
		known[e.Addr] = !e.Draining
	}
	var out []endpoint.Spec
	for _, e := range next {
		if known[e.Addr] || e.Draining {
			out = append(out, e)
		}
	}
	return out
}

func named(list []endpoint.Spec) func(endpoint.Spec) bool {
	return func(e endpoint.Spec) bool {
		return slices.ContainsFunc(list, func(other endpoint.Spec) bool { return sameEndpoint(e, other) })
	}
}
