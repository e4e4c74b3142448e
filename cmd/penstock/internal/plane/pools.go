package plane

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/penstock-project/penstock/picker"
	"github.com/penstock-project/penstock/picker/endpoint"
	"github.com/penstock-project/penstock/picker/schedule"
	"github.com/penstock-project/penstock/translator"
	"github.com/penstock-project/penstock/translator/model"
	"github.com/penstock-project/penstock/xds/resource"
)

// growPatience is how long the picker waits for Envoys to know a pool's new endpoints before it names them all the same:
// a proxy that does not answer must not keep a pool small.
const growPatience = time.Second

// poolStage hands pools to the picker in two steps, so that it never names an endpoint that Envoy does not have: what
// leaves is forgotten before Envoy hears of it, what comes is named after Envoys know it.
type poolStage struct {
	plane *Plane
	wake  chan struct{}

	mu      sync.Mutex
	current map[string]picker.Pool // what the picker has
	grown   map[string]picker.Pool // what it shall have once Envoys know the endpoints
	plain   map[string]*model.Pool
}

func newPoolStage(p *Plane) *poolStage {
	return &poolStage{plane: p, wake: make(chan struct{}, 1), current: map[string]picker.Pool{}, grown: map[string]picker.Pool{}, plain: map[string]*model.Pool{}}
}

// shrink is called before an update reaches the cache.
func (s *poolStage) shrink(out translator.Output) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range out.PoolsGone {
		delete(s.current, name)
		delete(s.grown, name)
		delete(s.plain, name)
		s.plane.picker.Remove(name)
	}
	for _, pp := range out.Pools {
		name := pp.Pool.Name
		if pp.Pool.Foreign {
			continue
		}
		next := pickerPool(pp)
		s.plain[name] = pp.Pool
		delete(s.grown, name)
		if old, ok := s.current[name]; ok {
			if known := intersect(next.Endpoints, old.Endpoints); len(known) < len(next.Endpoints) {
				s.grown[name] = next
				next.Endpoints = known
			}
		}
		s.set(name, next)
	}
	s.chooseDefault()
}

// set gives the picker one pool. s.mu is held.
func (s *poolStage) set(name string, pool picker.Pool) {
	pool.Default = s.current[name].Default
	s.current[name] = pool
	if err := s.plane.picker.Update(pool); err != nil {
		s.plane.log.Error("a pool cannot be picked from as configured; its last good configuration stays", "pool", name, "error", err)
	}
}

// chooseDefault marks the pool that gateways get which name none: the configured one, or the only one. s.mu is held.
func (s *poolStage) chooseDefault() {
	want := s.plane.cfg.DefaultPool
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
			s.set(name, pool)
		}
	}
}

// grow is called after an update has reached the cache.
func (s *poolStage) grow() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.grown) > 0 {
		select {
		case s.wake <- struct{}{}:
		default:
		}
	}
}

// Run gives pools their new endpoints once Envoys know them.
func (s *poolStage) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.wake:
		}
		s.mu.Lock()
		var clusters []string
		want := map[string]picker.Pool{}
		for name, pool := range s.grown {
			want[name] = pool
			clusters = append(clusters, s.plain[name].Cluster, s.plain[name].Last)
		}
		s.mu.Unlock()
		slices.Sort(clusters)
		wait, cancel := context.WithTimeout(ctx, growPatience)
		_ = s.plane.endpointsKnown(wait, slices.Compact(clusters)...) // its only error is that time is over
		cancel()
		s.mu.Lock()
		for name, pool := range want {
			if now, ok := s.grown[name]; ok && slices.EqualFunc(now.Endpoints, pool.Endpoints, sameEndpoint) {
				delete(s.grown, name)
				s.set(name, now)
			}
		}
		s.mu.Unlock()
	}
}

func sameEndpoint(a, b endpoint.Spec) bool { return a.Addr == b.Addr }

// intersect keeps the endpoints of next that old has too.
func intersect(next, old []endpoint.Spec) []endpoint.Spec {
	known := map[netip.AddrPort]bool{}
	for _, e := range old {
		known[e.Addr] = true
	}
	var out []endpoint.Spec
	for _, e := range next {
		if known[e.Addr] {
			out = append(out, e)
		}
	}
	return out
}

// pickerPool is a pool in the picker's words.
func pickerPool(pp translator.PickerPool) picker.Pool {
	s := pp.Pool.Settings
	out := picker.Pool{
		Name:      pp.Pool.Name,
		Strategy:  s.Strategy,
		Weights:   schedule.Weights{Queue: s.QueueWeight, KVCache: s.KVCacheWeight, InFlight: s.InFlightWeight},
		Full:      schedule.Full{Queue: s.FullQueue, KVCachePercent: s.FullKVCachePercent, InFlight: s.FullInFlight},
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

// endpointsKnown returns when every connected Envoy that has one of the clusters has its newest endpoints, or with its
// context's error.
func (p *Plane) endpointsKnown(ctx context.Context, clusters ...string) error {
	for _, gw := range p.cache.Gateways() {
		for _, name := range clusters {
			ref := resource.Ref{Type: resource.Endpoints, Name: name}
			version, ok := p.cache.Current(gw.Name, ref)
			if !ok {
				continue
			}
			if err := p.xds.WaitAcked(ctx, gw.Name, ref, version); err != nil {
				return err
			}
		}
	}
	return nil
}

// Delivered implements learned.Delivery.
func (p *Plane) Delivered(ctx context.Context, rev uint64, pool string) error {
	if err := p.progress.wait(ctx, rev); err != nil {
		return err
	}
	p.mu.Lock()
	cluster, ok := p.translator.PoolCluster(pool)
	p.mu.Unlock()
	if !ok {
		return fmt.Errorf("pool %s is gone", pool)
	}
	return p.endpointsKnown(ctx, cluster, model.LastCluster(cluster))
}
