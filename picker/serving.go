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

// Pools are watched without requests: of each, one server after the other is probed. While it
// works, and while pages or responses show that a server of the pool works, the pool is left alone.
// Once a probe fails, or takes longer than hedgeAfter, all servers are probed, and those that are
// down with each further look.
const (
	// Used pools are looked at every lookUsed, and idle ones every lookIdle. In a watchEvery at
	// most idleProbes looks at idle pools begin, and usedProbes at used ones: the others come
	// later.
	watchEvery         = 250 * time.Millisecond
	lookUsed, lookIdle = 500 * time.Millisecond, time.Second
	idleProbes         = 2
	usedProbes         = 50
	// usedFor is how long a pool counts as used after a pick, and shownFor how long a page or a
	// response shows that a server works.
	usedFor, shownFor = 5 * time.Second, 300 * time.Millisecond
	hedgeAfter        = 100 * time.Millisecond
	// maxLooks is how many pools are looked at in a watchEvery, maxLooked how many servers one look
	// probes, and maxAtOnce how many of these at a time.
	maxLooks, maxLooked, maxAtOnce = 500, 64, 16
	// maxUnused is how many pools there may be for those without a pick to be probed.
	maxUnused = 64
	// maxOut is how many servers of a pool Serving names.
	maxOut = 32
)

// Unserved is a pool of which no server serves.
type Unserved struct {
	Servers int    // that it has
	Server  string // one of them
	Why     string // it does not serve
}

// Serving is how many of a pool's servers serve.
type Serving struct {
	Pool    objectid.Target `json:"pool"`
	Servers int             `json:"servers"`
	Serving int             `json:"serving"`
	Out     []Out           `json:"out,omitempty"` // those that do not serve, maxOut at most
}

// Out is a server that does not serve.
type Out struct {
	Server string    `json:"server"` // its address
	Why    string    `json:"why"`
	Since  time.Time `json:"since,omitzero"`
}

// watch has the turns of all pools.
type watch struct {
	mu    sync.Mutex
	set   *poolSet // that turns follows
	turns map[string]*turn
	// all has the turns of all pools, and ring those of watched ones.
	all, ring []*turn
	// Where the next look begins: in all at unused pools, in ring at used and at idle ones.
	nextUnused, nextUsed, nextIdle int
}

// turn has the state of one pool's servers. watch.mu guards it.
type turn struct {
	pool   *pool
	sights map[netip.AddrPort]*liveness.Sight
	server int // of the next look
	looked time.Time
	inRing bool
	open   bool     // a look is
	found  Unserved // as it was reported
}

// watched is a server that may serve a pool's requests.
type watched struct {
	addr netip.AddrPort
	end  *endpoint.Endpoint // nil: the picker of the pool is another one
	by   upstream.Protocol
	// gateway: it is one of another cluster, and gets connections alone.
	gateway bool
}

// watchedServers returns how many servers a pool has, and the one at a position.
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

// good is when a request last succeeded at the server.
func (w watched) good() time.Time {
	if w.end == nil {
		return time.Time{}
	}
	return w.end.Load().Succeeded()
}

// read reports whether the server's metrics page was ever read.
func (w watched) read() bool { return w.end != nil && w.end.PageRead() }

// out returns why the server does not serve; an empty Why if it does.
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

// watchServers looks at all pools until ctx ends.
func (p *Picker) watchServers(ctx context.Context) error {
	var looks sync.WaitGroup
	defer looks.Wait()
	every := time.NewTicker(watchEvery)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-every.C:
			for _, t := range p.dueTurns(now) {
				looks.Go(func() { p.look(ctx, t) })
			}
		}
	}
}

// dueTurns returns the pools of which servers are to be probed now: used ones, and as many of the
// idle ones as may be. It judges all that are due.
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
			used := now.Sub(t.pool.snapshot.Used()) < usedFor
			if used == pass.used && !t.open && now.Sub(t.looked) >= pass.pause {
				probes := p.dueTurn(t, now)
				if probes && pass.probes == 0 {
					break // it is the first one next time
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

// watchUsed adds pools to the ring: all if there are few, else those that have had a pick.
func (w *watch) watchUsed() {
	if len(w.ring) == len(w.all) {
		return
	}
	for range min(len(w.all), maxLooks) {
		t := w.all[w.nextUnused%len(w.all)]
		w.nextUnused = (w.nextUnused + 1) % len(w.all)
		if !t.inRing && (len(w.all) <= maxUnused || !t.pool.snapshot.Used().IsZero()) {
			t.inRing, w.ring = true, append(w.ring, t)
		}
	}
}

// dueTurn judges a pool, and reports whether its servers are to be probed. watch.mu is held.
func (p *Picker) dueTurn(t *turn, now time.Time) bool {
	n, at := t.pool.watchedServers()
	p.judge(t, n, at)
	return n > 0 && !t.shown(n, at, now)
}

// followPools has a turn for each pool. watch.mu is held.
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
			t.pool, t.looked = pool, time.Time{}
			t.forget()
		}
	}
	w.set = set
}

// forget drops the sights of servers that have left the pool.
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

// shown reports whether a page or a response shows a server that works, while no probe shows one
// that is down, and it is known of each whether a probe reaches it.
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

// judge reports a pool of which no server serves. watch.mu is held.
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

// report passes on that a pool has no server that serves, or has one again; the reason stays as it
// was found first.
func (t *turn) report(p *Picker, next Unserved) {
	if next.Servers != t.found.Servers {
		t.found = next
		p.config.Troubles.Unserved(t.pool.ID, next)
	}
}

// look probes servers of a pool.
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
	if w.turns[t.pool.Name] == t { // else the pool is gone, and nothing would resolve its report
		n, at = t.pool.watchedServers()
		p.judge(t, n, at)
	}
}

// probeServers probes a server, and the others if all are to be probed or the first one does not
// work at once.
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
	_ = probes.Wait() // they return no error
}

// probeServer probes a server once, and returns whether it works. One that is up again gets
// requests at once.
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

// serving describes a pool's servers. watch.mu is held.
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

// Serving returns how many servers of each pool serve, by pool. Pools without servers of their own
// are missing.
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

// ServingOf is Serving of one pool; false if it is missing there.
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

// String describes how many servers serve, and why others do not.
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

// collectServing sends how many servers of each pool serve.
func (p *Picker) collectServing(ch chan<- prometheus.Metric) {
	for _, s := range p.Serving() {
		ch <- prometheus.MustNewConstMetric(servingDesc, prometheus.GaugeValue, float64(s.Serving), s.Pool.String())
	}
}
