package picker

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/picker/endpoint"
	"github.com/penstock-project/penstock/picker/liveness"
	"github.com/penstock-project/penstock/picker/upstream"
)

// The picker checks whether the servers of its pools work, even without requests. A look checks one
// pool: it probes one of the pool's servers, in turn, unless a metrics page or a response has just
// shown a working server. If the probe fails or takes longer than hedgeAfter, all servers are
// probed.
const (
	// A look follows after lookUsed for a used pool, and after lookIdle for an idle pool. Each
	// watchEvery, looks with probes begin for at most usedProbes used and idleProbes idle pools.
	watchEvery         = 250 * time.Millisecond
	unwatchedEvery     = time.Second // replaces watchEvery while no pool is watched
	lookUsed, lookIdle = 500 * time.Millisecond, time.Second
	idleProbes         = 2
	usedProbes         = 50
	// A pool counts as used for usedFor after a pick. A server counts as working for shownFor after
	// a metrics page or a response.
	usedFor, shownFor = 5 * time.Second, 300 * time.Millisecond
	hedgeAfter        = 100 * time.Millisecond
	// A server counts as dead after usedProof (used pool) or idleProof (idle pool) unanswered
	// probes in a row. In a used pool, the second probe follows at once, so that a Warning appears
	// within 2 s.
	usedProof, idleProof = 2, 3
	// A stopped server is reported as serving again after it has served for steady.
	steady = 3 * time.Second
	// maxLooks bounds the pools in each watchEvery, maxLooked the servers in a look, and maxAtOnce
	// a look's concurrent probes.
	maxLooks, maxLooked, maxAtOnce = 500, 64, 16
	// Pools without any pick are watched only if there are at most maxUnused pools.
	maxUnused = 64
	maxOut    = 32
	maxNamed  = 3
)

// Unserved is a pool that no server serves.
type Unserved struct {
	Servers int
	Out     []Out // at most maxOut
}

// Change lists the servers that stopped or resumed serving while their pool serves. Draining
// servers are omitted.
type Change struct {
	Servers, Serving int
	Stopped          []Out
	Again            []string
}

// Serving counts a pool's serving servers.
type Serving struct {
	Pool    objectid.Target `json:"pool"`
	Servers int             `json:"servers"`
	Serving int             `json:"serving"`
	Out     []Out           `json:"out,omitempty"` // at most maxOut
}

// Out is a server that does not serve.
type Out struct {
	Server string    `json:"server"`
	Why    string    `json:"why"`
	Since  time.Time `json:"since,omitzero"`
}

type watch struct {
	mu                 sync.Mutex
	set                *poolSet
	turns              map[string]*turn
	all, ring          []*turn
	nextUsed, nextIdle int

	// begun lists the pools whose first pick was after the last pass. Without the list, each pass
	// would search thousands of pools, even in an idle process.
	begun struct {
		sync.Mutex
		pools []string
	}
}

// begin makes the next pass watch a pool. It returns at once.
func (w *watch) begin(pool string) {
	w.begun.Lock()
	defer w.begun.Unlock()
	w.begun.pools = append(w.begun.pools, pool)
}

// watch.mu guards the fields.
type turn struct {
	pool   *pool
	sights map[netip.AddrPort]*liveness.Sight
	server int
	looked time.Time
	inRing bool
	used   bool // the pool has had a pick
	open   bool
	found  Unserved
	// stopped has the servers that were reported as not serving. The time is when the server began
	// to serve again, or zero.
	stopped map[netip.AddrPort]time.Time
}

type watched struct {
	addr netip.AddrPort
	end  *endpoint.Endpoint // nil if another picker or gateway chooses the pool's servers
	by   upstream.Protocol
	// gateway means that the server is a gateway: probes only open a connection.
	gateway bool
	used    bool
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
		o.Why = whyDraining
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
	w.begun.Lock()
	begun := w.begun.pools // read first, so that followPools sees the pools of these picks
	w.begun.pools = nil
	w.begun.Unlock()
	p.followPools()
	for _, name := range begun {
		if t := w.turns[name]; t != nil {
			t.used = true
			w.join(t)
		}
	}
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
					break // the next pass begins with this pool
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

func (w *watch) join(t *turn) {
	if !t.inRing {
		t.inRing, w.ring = true, append(w.ring, t)
	}
}

// noteUse returns the time of the last pick from the pool's current snapshot, or zero. The caller
// holds watch.mu.
func (t *turn) noteUse() time.Time {
	at := t.pool.snapshot.Used()
	t.used = t.used || !at.IsZero()
	return at
}

// The caller holds watch.mu.
func (p *Picker) dueTurn(t *turn, now time.Time) bool {
	n, at := t.pool.watchedServers()
	p.judge(t, n, at)
	return n > 0 && !t.shown(n, at, now)
}

// The caller holds watch.mu.
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
		return
	}
	for _, t := range w.all {
		w.join(t)
	}
}

// unwatchUnused stops watching pools without any pick, which are watched while there are at most
// maxUnused pools. The caller holds watch.mu.
func (p *Picker) unwatchUnused() {
	p.watch.ring = slices.DeleteFunc(p.watch.ring, func(t *turn) bool {
		if t.noteUse(); t.used {
			return false
		}
		t.inRing = false
		t.report(p, Unserved{})
		clear(t.sights)
		clear(t.stopped)
		return true
	})
}

func (t *turn) forget() {
	n, at := t.pool.watchedServers()
	if len(t.sights)+len(t.stopped) == 0 {
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
	for addr := range t.stopped {
		if !stay[addr] {
			delete(t.stopped, addr)
		}
	}
}

// shown reports whether a pool needs no probe. A metrics page or a response must have just shown a
// working server, no server may be down, and each server must have been probed or its page read.
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

// judge determines which of a pool's n servers serve, and reports changes to Config.Troubles. The
// caller holds watch.mu.
func (p *Picker) judge(t *turn, n int, server func(int) watched) {
	now := time.Now()
	at := endpoint.At(now)
	next, change := Unserved{Servers: n}, Change{Servers: n}
	for i := range n {
		s := server(i)
		o := s.out(t.sights[s.addr], at)
		o.Server = s.addr.String()
		switch {
		case o.Why == "":
			change.Serving++
		case len(next.Out) < maxOut:
			next.Out = append(next.Out, o)
		}
		t.noteChange(&change, s, o, now)
	}
	if change.Serving > 0 || p.endsOnDemand(t.pool, next) {
		next = Unserved{}
		if len(change.Stopped)+len(change.Again) > 0 {
			p.config.Troubles.Changed(t.pool.ID, change)
		}
	}
	t.report(p, next)
}

func (p *Picker) endsOnDemand(pool *pool, u Unserved) bool {
	if p.config.OnDemand == nil || slices.ContainsFunc(u.Out, func(o Out) bool { return o.Why != whyDraining }) {
		return false
	}
	_, ok := p.config.OnDemand.Demand(pool.ID)
	return ok
}

const whyDraining = "draining"

func (t *turn) noteChange(c *Change, s watched, o Out, now time.Time) {
	served, stopped := t.stopped[s.addr]
	switch {
	case s.end != nil && s.end.Draining:
		delete(t.stopped, s.addr)
	case o.Why != "":
		if t.stopped == nil {
			t.stopped = map[netip.AddrPort]time.Time{}
		}
		if t.stopped[s.addr] = (time.Time{}); !stopped {
			c.Stopped = append(c.Stopped, o)
		}
	case !stopped:
	case served.IsZero():
		t.stopped[s.addr] = now
	case now.Sub(served) >= steady:
		delete(t.stopped, s.addr)
		c.Again = append(c.Again, o.Server)
	}
}

func (t *turn) report(p *Picker, next Unserved) {
	if next.Servers != t.found.Servers {
		t.found = next
		p.config.Troubles.Unserved(t.pool.ID, next)
	}
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

// Serving describes each pool with own servers.
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

// ServingOf is Serving for one pool; false if Serving omits the pool.
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

// Named lists the first maxNamed of n servers, each with why it does not serve, and the number of
// the other servers.
func Named(all []Out, n int) string {
	var text strings.Builder
	for i, o := range all[:min(len(all), maxNamed)] {
		if i > 0 {
			text.WriteString(", ")
		}
		fmt.Fprintf(&text, "%s (%s)", o.Server, o.Why)
	}
	if more := n - min(len(all), maxNamed); more > 0 {
		fmt.Fprintf(&text, " and %d more", more)
	}
	return text.String()
}

// String describes the change in one line.
func (c Change) String() string {
	var parts []string
	switch n := len(c.Stopped); {
	case n == 1:
		parts = append(parts, c.Stopped[0].Server+" does not serve: "+c.Stopped[0].Why)
	case n > 1:
		parts = append(parts, Named(c.Stopped, n)+" do not serve")
	}
	switch n := len(c.Again); {
	case n == 1:
		parts = append(parts, c.Again[0]+" serves again")
	case n > maxNamed:
		parts = append(parts, fmt.Sprintf("%s and %d more serve again", strings.Join(c.Again[:maxNamed], ", "),
			n-maxNamed))
	case n > 1:
		parts = append(parts, strings.Join(c.Again, ", ")+" serve again")
	}
	return fmt.Sprintf("%s; %d of %d servers serve", strings.Join(parts, "; "), c.Serving, c.Servers)
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
