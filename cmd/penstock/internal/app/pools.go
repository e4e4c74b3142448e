package app

import (
	"context"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/penstock-project/penstock/picker"
	"github.com/penstock-project/penstock/picker/endpoint"
	"github.com/penstock-project/penstock/picker/schedule"
	"github.com/penstock-project/penstock/translator"
	"github.com/penstock-project/penstock/translator/model"
)

const (
	// growPatience is how long the picker waits for Envoys to know a pool's new endpoints before it names them all the same:
	// a proxy that does not answer must not keep a pool small.
	growPatience = time.Second
	// hopPatience is the same where they have to know a new place to spill to: it is a listener with routes, too.
	hopPatience = 5 * time.Second
	// mostFallbacks is how many further endpoints the picker names at most.
	mostFallbacks = 8
)

// poolPicker is the picker that a poolStage tells. *picker.Picker is one.
type poolPicker interface {
	Update(picker.Pool) error
	Remove(name string)
}

// poolProxies is what a poolStage asks of the Envoys. *App is one.
type poolProxies interface {
	// endpointsKnown returns when every Envoy has the newest endpoints of some clusters.
	endpointsKnown(ctx context.Context, clusters ...string) error
}

// poolStageConfig is what a poolStage needs.
type poolStageConfig struct {
	Picker      poolPicker
	Proxies     poolProxies
	DefaultPool string        // as Config.DefaultPool
	Keep        time.Duration // how long a pool that is gone may still be asked for: Config.DrainTime
	Log         *slog.Logger
}

// poolStage hands pools to the picker in steps, because Envoys are always a little behind: an endpoint that leaves is
// forgotten before Envoy hears of it, one that comes is named after Envoys know it, so do places to spill to, and a pool that is gone is picked from as
// long as one of them may still ask.
type poolStage struct {
	cfg          poolStageConfig
	grow, retire chan struct{} // wake the two halves of Run

	mu       sync.Mutex
	updating bool                   // between before and after: the cache does not have what growing waits for
	current  map[string]picker.Pool // what the picker has
	growing  map[string]picker.Pool // what it shall have once Envoys know the endpoints
	plain    map[string]*model.Pool
	gone     map[string]time.Time // pools that are kept for now, and until when
}

func newPoolStage(cfg poolStageConfig) *poolStage {
	wake := func() chan struct{} { return make(chan struct{}, 1) }
	return &poolStage{
		cfg: cfg, grow: wake(), retire: wake(), current: map[string]picker.Pool{}, growing: map[string]picker.Pool{},
		plain: map[string]*model.Pool{}, gone: map[string]time.Time{},
	}
}

// before is called before an update reaches the cache. It returns what the picker names now of pools that have changed.
func (s *poolStage) before(out translator.Output) map[string]naming {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.updating = true
	changed := map[string]naming{}
	for _, name := range out.PoolsGone {
		s.leave(name.String())
	}
	for _, pp := range out.Pools {
		name := pp.Pool.Name.String()
		if pp.Pool.External {
			s.leave(name)
			continue
		}
		s.plain[name] = pp.Pool
		delete(s.gone, name)
		next := pickerPool(pp)
		changed[name] = names(next, s.current[name])
		s.change(next)
	}
	s.chooseDefault()
	return changed
}

// leave is for a pool that nobody should ask us about any more. s.mu is held.
func (s *poolStage) leave(name string) {
	delete(s.growing, name)
	delete(s.plain, name)
	pool, ok := s.current[name]
	if _, before := s.gone[name]; !ok || before {
		return
	}
	s.gone[name] = time.Now().Add(s.cfg.Keep)
	pool.Metrics.Off = true // its servers may be gone too
	s.set(pool)
	poke(s.retire)
}

// change gives the picker of a pool what is right whether Envoys know of the change or not. s.mu is held.
func (s *poolStage) change(next picker.Pool) {
	delete(s.growing, next.Name)
	old, ok := s.current[next.Name]
	if !ok {
		s.set(next)
		return
	}
	now := next
	now.Spill = slices.DeleteFunc(slices.Clone(next.Spill), func(place string) bool { return !slices.Contains(old.Spill, place) })
	if len(now.Spill) < len(next.Spill) {
		s.growing[next.Name] = next
	}
	known := intersect(next.Endpoints, old.Endpoints)
	switch {
	case len(known) == len(next.Endpoints):
	case slices.ContainsFunc(known, func(e endpoint.Spec) bool { return !e.Draining }):
		now.Endpoints = known
		s.growing[next.Name] = next
	default:
		// All are replaced. Envoy passes over those of a list that it does not have: so the list has old and new ones.
		now.Endpoints = slices.Concat(next.Endpoints, slices.DeleteFunc(slices.Clone(old.Endpoints), named(next.Endpoints)))
		now.Fallbacks = mostFallbacks
		s.growing[next.Name] = next
	}
	s.set(now)
}

// set gives the picker one pool. s.mu is held.
func (s *poolStage) set(pool picker.Pool) {
	pool.Default = s.current[pool.Name].Default
	s.current[pool.Name] = pool
	if err := s.cfg.Picker.Update(pool); err != nil {
		s.cfg.Log.Error("a pool cannot be picked from as configured; its last good configuration stays", "pool", pool.Name, "error", err)
	}
}

// chooseDefault marks the pool that gateways get which name none: the configured one, or the only one. s.mu is held.
func (s *poolStage) chooseDefault() {
	want := s.cfg.DefaultPool
	if want == "" {
		local := 0
		for name, p := range s.plain {
			if p.Relay == nil {
				local++
				want = name
			}
		}
		if local != 1 {
			want = ""
		}
	}
	for name, pool := range s.current {
		if pool.Default != (name == want) {
			pool.Default = name == want
			s.current[name] = pool
			s.set(pool)
		}
	}
}

// after is called after an update has reached the cache.
func (s *poolStage) after() {
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

// Run gives pools the rest of what they shall have once Envoys know of it, and forgets those that are gone.
func (s *poolStage) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.finish(ctx) })
	group.Go(func() error { return s.forget(ctx) })
	return group.Wait()
}

// finish gives pools their new endpoints once Envoys know them.
func (s *poolStage) finish(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.grow:
			s.finishGrowing(ctx)
		}
	}
}

func (s *poolStage) finishGrowing(ctx context.Context) {
	s.mu.Lock()
	if s.updating { // after wakes us again
		s.mu.Unlock()
		return
	}
	var clusters []string
	want, patience := map[string]picker.Pool{}, growPatience
	for name, pool := range s.growing {
		want[name] = pool
		if len(pool.Spill) > len(s.current[name].Spill) {
			patience = hopPatience
		}
		clusters = append(clusters, s.plain[name].Cluster.String(), s.plain[name].Last.String())
	}
	s.mu.Unlock()
	slices.Sort(clusters)
	wait, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	_ = s.cfg.Proxies.endpointsKnown(wait, slices.Compact(clusters)...) // its only error is that time is over
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, pool := range want {
		if now, ok := s.growing[name]; ok && slices.EqualFunc(now.Endpoints, pool.Endpoints, sameEndpoint) && slices.Equal(now.Spill, pool.Spill) {
			delete(s.growing, name)
			s.set(now)
		}
	}
}

// forget removes pools that are gone once their time is over.
func (s *poolStage) forget(ctx context.Context) error {
	for {
		next := time.Hour
		s.mu.Lock()
		for name, until := range s.gone {
			left := time.Until(until)
			if left > 0 {
				next = min(next, left)
				continue
			}
			delete(s.gone, name)
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

func sameEndpoint(a, b endpoint.Spec) bool { return a.Addr == b.Addr }

// intersect keeps the endpoints of next that Envoys have, going by old: those that drain they do not have, and need not.
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

// named says of an endpoint whether a list has it.
func named(list []endpoint.Spec) func(endpoint.Spec) bool {
	return func(e endpoint.Spec) bool {
		return slices.ContainsFunc(list, func(other endpoint.Spec) bool { return sameEndpoint(e, other) })
	}
}

// pickerPool is a pool in the picker's words.
func pickerPool(pp translator.PickerPool) picker.Pool {
	s := pp.Pool.Settings
	out := picker.Pool{
		Name:      pp.Pool.Name.String(),
		Strategy:  s.Strategy,
		Weights:   schedule.Weights{Queue: s.QueueWeight, KVCache: s.KVCacheWeight, InFlight: s.InFlightWeight},
		Full:      schedule.Full{Queue: s.FullQueue, KVCachePercent: s.FullKVCachePercent, InFlight: s.FullInFlight},
		Spills:    pp.Pool.Picker.Spills,
		Spill:     pp.Pool.Picker.Spill,
		Fallbacks: int(s.Fallbacks),
		Metrics:   endpoint.Metrics{Path: s.MetricsPath, Port: uint16(s.MetricsPort), Queue: s.QueueName, Running: s.RunningName, KVCache: s.KVCacheName},
	}
	if pp.Pool.Picker.Body == model.BodyBuffered {
		out.Body = picker.BodyBuffered
	}
	if r := pp.Pool.Relay; r != nil {
		out.Relay = &picker.Relay{Pickers: r.Pickers, TLS: r.TLS, Ports: pp.Pool.Ports}
		for _, cidr := range r.CIDRs {
			if prefix, err := netip.ParsePrefix(cidr); err == nil {
				out.Relay.CIDRs = append(out.Relay.CIDRs, prefix)
			}
		}
		return out // its endpoints are what Envoy learned, which it need not know
	}
	for _, m := range pp.Members {
		out.Endpoints = append(out.Endpoints, endpoint.Spec{Addr: m.Address, Pod: m.Pod, Labels: m.Labels, Draining: m.Draining})
	}
	return out
}
