package picker

import (
	"context"
	"fmt"
	"net/netip"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/picker/endpoint"
	"github.com/penstock-project/penstock/picker/liveness"
	"github.com/penstock-project/penstock/picker/upstream"
)

// Pools without requests are watched, too. Each look probes one server of a pool, in turn, unless
// pages or responses show a working server. Once a probe fails, or takes longer than hedgeAfter,
// all servers are probed.
const (
	// A used pool has a look every lookUsed, an idle pool every lookIdle. In each watchEvery, at
	// most usedProbes looks begin for used pools, and at most idleProbes for idle pools.
	watchEvery         = 250 * time.Millisecond
	unwatchedEvery     = time.Second // the interval of looks while no pool is in the ring
	lookUsed, lookIdle = 500 * time.Millisecond, time.Second
	idleProbes         = 2
	usedProbes         = 50
	// A pool counts as used for usedFor after a pick. For shownFor, a page or response proves that
	// a server works.
	usedFor, shownFor = 5 * time.Second, 300 * time.Millisecond
	hedgeAfter        = 100 * time.Millisecond
	// maxLooks bounds the pools in each watchEvery, maxLooked the servers in a look, and maxAtOnce
	// the concurrent probes of a look.
	maxLooks, maxLooked, maxAtOnce = 500, 64, 16
	// Pools without picks are probed if there are at most maxUnused pools.
	maxUnused = 64
	maxOut    = 32
)

// Unserved is a pool that no server serves.
type Unserved struct {
	Servers int
	Server  string
	Why     string
}

// Serving describes how many of a pool's servers serve.
type Serving struct {
	Pool    objectid.Target `json:"pool"`
	Servers int             `json:"servers"`
	Serving int             `json:"serving"`
	Out     []Out           `json:"out,omitempty"` // servers that do not serve, at most maxOut
}

// Out is a server that does not serve.
type Out struct {
	Server string    `json:"server"`
	Why    string    `json:"why"`
	Since  time.Time `json:"since,omitzero"`
}

type watch struct {
	mu                             sync.Mutex
	set                            *poolSet
	turns                          map[string]*turn
	all, ring                      []*turn
	nextUnused, nextUsed, nextIdle int
}

// turn is guarded by watch.mu.
type turn struct {
	pool   *pool
	sights map[netip.AddrPort]*liveness.Sight
	server int
	looked time.Time
	inRing bool
	used   bool // the pool had a pick with this or an earlier snapshot
	open   bool
	found  Unserved
}

type watched struct {
	addr netip.AddrPort
	end  *endpoint.Endpoint // nil if another picker picks for the pool
	by   upstream.Protocol
	// A probe of a gateway only connects.
	gateway bool
}

func (pool *pool) watchedServers() (n int, at func(int) watched) {
	if pool.Gone || pool.Clusters != nil {
		return 0, nil
	}
	if pool.Relay != nil || pool.Gateways {
		return len(pool.Servers), func(i int) watched {
			s := pool.Servers[i]
			if s.Cleartext || pool.Gateways {
				return watched{addr: s.Addr, by: pool.Metrics.Protocol.WithoutTLS(), gateway: pool.Gateways}
			}
			return watched{addr: s.Addr, by: pool.Metrics.Protocol}
		}
	}
	list := pool.snapshot.Endpoints
	return len(list), func(i int) watched {
		return watched{addr: list[i].Addr, end: &list[i], by: pool.Metrics.Protocol}
	}
}

func (w watched) good() time.Time {
	if w.end == nil {
		return time.Time{}
	}
	return w.end.Load().Succeeded()
}

func (w watched) read() bool { return w.end != nil && w.end.PageRead() }

func (w watched) out(s *liveness.Sight, at endpoint.Moment) (o Out) {
	if o.Why, o.Since = s.Down(w.good()); o.Why != "" || w.end == nil {
		return o
	}
	load := w.end.Load()
	silence := load.Silence()
	switch {
	case w.end.Draining:
		o.Why = "draining"
	case silence != nil:
		o.Why = silence.String()
	case load.Failing(at):
		last := load.LastFailure()
		o.Why = last.String()
	}
	return o
}

func (p *Picker) watchServers(ctx context.Context) error {
	var looks sync.WaitGroup
	defer looks.Wait()
	every := watchEvery
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-time.After(every):
			for _, t := range p.dueTurns(now) {
				looks.Go(func() { p.look(ctx, t) })
			}
			every = p.watch.pause()
		}
	}
}

func (w *watch) pause() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.ring) == 0 {
		return unwatchedEvery
	}
	return watchEvery
}

func (p *Picker) dueTurns(now time.Time) (due []*turn) {
	w := &p.watch
	w.mu.Lock()
	defer w.mu.Unlock()
	p.followPools()
	w.watchUsed()
	for _, pass := range []struct {
		next   *int
		used   bool
		pause  time.Duration
		probes int
	}{{&w.nextUsed, true, lookUsed, usedProbes}, {&w.nextIdle, false, lookIdle, idleProbes}} {
		for range min(len(w.ring), maxLooks) {
			t := w.ring[*pass.next%len(w.ring)]
			used := now.Sub(t.noteUse()) < usedFor
			if used == pass.used && !t.open && now.Sub(t.looked) >= pass.pause {
				probes := p.dueTurn(t, now)
				if probes && pass.probes == 0 {
					break // the pool is first the next time
				}
				if t.looked = now; probes {
					pass.probes--
					t.open = true
					due = append(due, t)
				}
			}
			*pass.next = (*pass.next + 1) % len(w.ring)
		}
	}
	return due
}

func (w *watch) watchUsed() {
	if len(w.ring) == len(w.all) {
		return
	}
	for range min(len(w.all), maxLooks) {
		t := w.all[w.nextUnused%len(w.all)]
		w.nextUnused = (w.nextUnused + 1) % len(w.all)
		if t.noteUse(); !t.inRing && (len(w.all) <= maxUnused || t.used) {
			t.inRing, w.ring = true, append(w.ring, t)
		}
	}
}

// noteUse returns the time of the last pick from this snapshot. watch.mu is held.
func (t *turn) noteUse() time.Time {
	at := t.pool.snapshot.Used()
	t.used = t.used || !at.IsZero()
	return at
}

// dueTurn judges a pool, and reports whether to probe its servers. watch.mu is held.
func (p *Picker) dueTurn(t *turn, now time.Time) bool {
	n, at := t.pool.watchedServers()
	p.judge(t, n, at)
	return n > 0 && !t.shown(n, at, now)
}

// watch.mu is held.
func (p *Picker) followPools() {
	w, set := &p.watch, p.pools.now.Load()
	if set == w.set {
		return
	}
	if w.turns == nil {
		w.turns = map[string]*turn{}
	}
	gone := false
	for name, t := range w.turns {
		if set.byName[name] == nil {
			delete(w.turns, name)
			t.report(p, Unserved{})
			gone = true
		}
	}
	if gone {
		left := func(t *turn) bool { return set.byName[t.pool.Name] == nil }
		w.all, w.ring = slices.DeleteFunc(w.all, left), slices.DeleteFunc(w.ring, left)
	}
	for name, pool := range set.byName {
		t := w.turns[name]
		if t == nil {
			t = &turn{pool: pool, sights: map[netip.AddrPort]*liveness.Sight{}}
			w.turns[name], w.all = t, append(w.all, t)
		}
		if t.pool != pool {
			t.noteUse()
			t.pool, t.looked = pool, time.Time{}
			t.forget()
		}
	}
	w.set = set
	if len(w.all) > maxUnused {
		p.unwatchUnused()
	}
}

// unwatchUnused removes pools without picks from the ring. They were added while there were few
// pools. watch.mu is held.
func (p *Picker) unwatchUnused() {
	p.watch.ring = slices.DeleteFunc(p.watch.ring, func(t *turn) bool {
		if t.noteUse(); t.used {
			return false
		}
		t.inRing = false
		t.report(p, Unserved{})
		clear(t.sights)
		return true
	})
}

func (t *turn) forget() {
	n, at := t.pool.watchedServers()
	if len(t.sights) == 0 {
		return
	}
	stay := make(map[netip.AddrPort]bool, n)
	for i := range n {
		stay[at(i).addr] = true
	}
	for addr := range t.sights {
		if !stay[addr] {
			delete(t.sights, addr)
		}
	}
}

// shown reports whether a pool needs no probe: a page or response shows a working server, no probe
// shows a dead server, and the reachability of each server is known.
func (t *turn) shown(n int, at func(int) watched, now time.Time) bool {
	works := false
	for i := range min(n, maxLooked) {
		s := at(i)
		sight := t.sights[s.addr]
		if why, _ := sight.Down(s.good()); why != "" || !sight.Probed() && !s.read() {
			return false
		}
		works = works || s.end != nil && now.Sub(s.end.Shown()) < shownFor
	}
	return works
}

// watch.mu is held.
func (p *Picker) judge(t *turn, n int, server func(int) watched) {
	at := endpoint.At(time.Now())
	next := Unserved{Servers: n}
	for i := range n {
		s := server(i)
		o := s.out(t.sights[s.addr], at)
		if o.Why == "" {
			next = Unserved{}
			break
		}
		if next.Why == "" {
			next.Server, next.Why = s.addr.String(), o.Why
		}
	}
	t.report(p, next)
}

func (t *turn) report(p *Picker, next Unserved) {
	if next.Servers != t.found.Servers {
		t.found = next
		p.config.Troubles.Unserved(t.pool.ID, next)
	}
}

func (p *Picker) look(ctx context.Context, t *turn) {
	w := &p.watch
	w.mu.Lock()
	n, at := t.pool.watchedServers()
	var first watched
	var others []watched
	for i := range min(n, maxLooked) {
		s := at((t.server + i) % n)
		if i == 0 {
			first = s
		} else {
			others = append(others, s)
		}
	}
	t.server++
	down := slices.ContainsFunc(others, func(s watched) bool {
		why, _ := t.sights[s.addr].Down(s.good())
		return why != ""
	})
	w.mu.Unlock()
	if n > 0 {
		p.probeServers(ctx, t, first, others, down)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	t.open = false
	// Pools outside the ring are not looked at, so no look would resolve a report.
	if w.turns[t.pool.Name] == t && t.inRing {
		n, at = t.pool.watchedServers()
		p.judge(t, n, at)
	}
}

func (p *Picker) probeServers(ctx context.Context, t *turn, first watched, others []watched, all bool) {
	var probes errgroup.Group
	probes.SetLimit(maxAtOnce)
	works := make(chan bool, 1)
	probes.Go(func() error {
		works <- p.probeServer(ctx, t, first)
		return nil
	})
	if !all {
		hedge := time.NewTimer(hedgeAfter)
		defer hedge.Stop()
		select {
		case up := <-works:
			all = !up
		case <-hedge.C:
			all = true
		}
	}
	for _, s := range others {
		if all {
			probes.Go(func() error {
				p.probeServer(ctx, t, s)
				return nil
			})
		}
	}
	_ = probes.Wait() // no probe returns an error
}

// A server that works again gets requests at once.
func (p *Picker) probeServer(ctx context.Context, t *turn, s watched) (up bool) {
	defer func() {
		if v := recover(); v != nil {
			p.config.Troubles.Panicked("probe of "+s.addr.String(), v, debug.Stack())
		}
	}()
	var take func(*liveness.Sight, liveness.Shown) (up, again bool)
	if s.gateway {
		take = p.asks.liveness.Reach(ctx, s.addr)
	} else {
		take = p.asks.liveness.Look(ctx, s.addr, s.by)
	}
	if ctx.Err() != nil {
		return true
	}
	p.watch.mu.Lock()
	defer p.watch.mu.Unlock()
	sight := t.sights[s.addr]
	if sight == nil {
		sight = new(liveness.Sight)
		t.sights[s.addr] = sight
	}
	up, again := take(sight, liveness.Shown{Good: s.good(), Read: s.read()})
	if again && s.end != nil {
		s.end.Load().Revived()
	}
	return up
}

func (t *turn) serving(at endpoint.Moment) Serving {
	n, server := t.pool.watchedServers()
	out := Serving{Pool: t.pool.ID, Servers: n}
	for i := range n {
		s := server(i)
		o := s.out(t.sights[s.addr], at)
		o.Server = s.addr.String()
		switch {
		case o.Why == "":
			out.Serving++
		case len(out.Out) < maxOut:
			out.Out = append(out.Out, o)
		}
	}
	return out
}

// Serving returns the number of serving servers of each pool, ordered by pool. It omits pools
// without own servers.
func (p *Picker) Serving() (all []Serving) {
	p.watch.mu.Lock()
	defer p.watch.mu.Unlock()
	p.followPools()
	at := endpoint.At(time.Now())
	for _, t := range p.watch.ring {
		if !t.pool.Gone && t.pool.Clusters == nil {
			all = append(all, t.serving(at))
		}
	}
	slices.SortFunc(all, func(a, b Serving) int { return a.Pool.Compare(b.Pool) })
	return all
}

// ServingOf is Serving for one pool. It returns false if the pool is omitted.
func (p *Picker) ServingOf(name string) (Serving, bool) {
	p.watch.mu.Lock()
	defer p.watch.mu.Unlock()
	p.followPools()
	t := p.watch.turns[name]
	if t == nil || t.pool.Gone || t.pool.Clusters != nil {
		return Serving{}, false
	}
	return t.serving(endpoint.At(time.Now())), true
}

// String describes how many servers serve, and why the others do not.
func (s *Serving) String() string {
	text := fmt.Sprintf("%d of %d serve", s.Serving, s.Servers)
	for i, o := range s.Out {
		if i == 0 {
			text += ": "
		} else {
			text += ", "
		}
		text += o.Server + " " + o.Reason()
	}
	return text
}

// Reason describes why the server does not serve, and since when.
func (o Out) Reason() string {
	if o.Since.IsZero() {
		return o.Why
	}
	return o.Why + " since " + o.Since.UTC().Format(time.RFC3339)
}

var servingDesc = prometheus.NewDesc("penstock_picker_serving_endpoints",
	"Endpoints of the pool that serve: neither draining nor suspect, and no probe shows that they are down. At 0 no "+
		"request can be served. Pools without endpoints of their own have no series.", []string{"pool"}, nil)

func (p *Picker) collectServing(ch chan<- prometheus.Metric) {
	for _, s := range p.Serving() {
		ch <- prometheus.MustNewConstMetric(servingDesc, prometheus.GaugeValue, float64(s.Serving), s.Pool.String())
	}
}
