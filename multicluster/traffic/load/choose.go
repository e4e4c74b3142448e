package load

import (
	"cmp"
	"crypto/rand"
	"log/slog"
	mathrand "math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/multicluster/selection"
	"github.com/penstock-project/penstock/picker"
	"github.com/penstock-project/penstock/picker/prefix"
	"github.com/penstock-project/penstock/picker/schedule"
)

// Config configures a Loads.
type Config struct {
	// Waiting returns the wait of a new request to a pool here, and how many prompt blocks the
	// pool's servers can cache together. ok is false if an external picker picks for the pool.
	Waiting func(pool objectid.Pool) (w schedule.Wait, capacity int, ok bool)
	// Federation returns this cluster's Federation; nil without a cluster set.
	Federation func() Federation
	// Cluster returns the name of this cluster in its set; "" without a set.
	Cluster func() string
	// OnPage, if set, receives why the metrics page of a cluster's picker cannot be read over TLS.
	// why is "" if the page can be read.
	OnPage func(pool objectid.Pool, member, why string)
	Log    *slog.Logger
}

// Loads chooses the clusters of requests to imports, and reports this cluster's load to members. It
// is safe for concurrent use.
type Loads struct {
	cfg    Config
	id     string
	sender atomic.Pointer[string]
	epoch  uint64

	mu      sync.RWMutex
	imports map[objectid.Target]*choosable
	changed bool

	pools pools

	pagesMu sync.Mutex // is locked after mu
	pages   map[pageKey]*page
}

type choosable struct {
	pool    objectid.Pool
	local   string // this cluster's name in list; "": not in list
	latency bool
	hops    map[string]string
	noGRPC  map[string]bool
	load    *selection.LeastLoad
	list    []picker.Cluster
}

var _ picker.Chooser = (*Loads)(nil)

// New makes a Loads without imports.
func New(c Config) *Loads {
	l := &Loads{cfg: c, id: rand.Text()[:16], epoch: uint64(time.Now().UnixNano()),
		imports: map[objectid.Target]*choosable{}, pages: map[pageKey]*page{}}
	l.pools.byPool = map[objectid.Pool]*counted{}
	return l
}

// SetClusters implements picker.Chooser.
func (l *Loads) SetClusters(id objectid.Target, c *picker.Clusters) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c == nil {
		delete(l.imports, id)
		l.changed = true
		return
	}
	old, next := l.imports[id], &choosable{pool: id.Pool, latency: c.Latency, list: c.List,
		hops: make(map[string]string, len(c.List)), noGRPC: map[string]bool{}}
	for _, m := range c.List {
		next.hops[m.Name], next.noGRPC[m.Name] = m.Hop, m.NoGRPC
		if m.Local {
			next.local = m.Name
		}
	}
	if old != nil && old.local == next.local && old.latency == c.Latency {
		old.load.SetMargin(c.Margin)
		next.load = old.load
	} else {
		next.load = selection.New(selection.Config{Local: next.local, Margin: c.Margin, Latency: c.Latency,
			End: prefix.End, Random: mathrand.Uint64})
	}
	next.setMembers(l.roundTrips(), l.servers)
	l.imports[id], l.changed = next, true
}

// setMembers passes the import's clusters to c.load. The number of servers comes from the page of
// the cluster's picker or, without a page, from the export.
func (c *choosable) setMembers(roundTrip func(member string) time.Duration,
	servers func(pool objectid.Pool, member string) int) {
	members := make([]selection.Member, len(c.list))
	for i, m := range c.list {
		members[i] = selection.Member{Name: m.Name, Servers: m.Servers}
		if !m.Local {
			shown := servers(c.pool, m.Name)
			members[i] = selection.Member{Name: m.Name, RoundTrip: roundTrip(m.Name),
				Servers: max(cmp.Or(shown, m.Servers), 0), Empty: shown == noServers}
		}
	}
	c.load.SetMembers(members)
}

func (l *Loads) roundTrips() func(string) time.Duration {
	if f := l.cfg.Federation(); f != nil {
		return f.RoundTrip
	}
	return func(string) time.Duration { return 0 }
}

var rankings = sync.Pool{New: func() any { return new([]selection.Choice) }}

// Choose implements picker.Chooser.
func (l *Loads) Choose(id objectid.Target, p picker.ClusterPrompt, charged bool,
	out []picker.ClusterCost) ([]picker.ClusterCost, picker.Charge) {
	l.mu.RLock()
	c := l.imports[id]
	l.mu.RUnlock()
	if c == nil {
		return out, nil
	}
	memory := rankings.Get().(*[]selection.Choice)
	defer rankings.Put(memory)
	prompt, now := selection.Prompt{Tokens: p.Tokens, Chain: p.Chain, Stay: p.Stay}, time.Now()
	ranked := c.load.Rank(now, prompt, (*memory)[:0])
	*memory = ranked
	first := -1
	for i := range ranked {
		r := &ranked[i]
		if hop, ok := c.hops[r.Member]; ok && !(p.GRPC && c.noGRPC[r.Member]) {
			if first < 0 {
				first = i
			}
			out = append(out, picker.ClusterCost{
				Cluster: r.Member, Hop: hop, Cost: r.Cost, Wait: r.Wait, Prompt: r.Prompt, RoundTrip: r.RoundTrip,
				Margin: r.Margin, Basis: string(r.Basis), Barred: r.Barred, Session: r.Session,
				Cached: max(p.Tokens-r.Uncached, 0),
			})
		}
	}
	if !charged || first < 0 {
		return out, nil
	}
	return out, &charge{lease: c.load.Begin(now, ranked[first], prompt)}
}

// Several access log streams may report on one charge.
type charge struct {
	mu    sync.Mutex
	lease selection.Lease
}

// FirstByte implements picker.Charge.
func (c *charge) FirstByte(after time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lease.FirstByteAfter(time.Now(), after)
}

// Declined implements picker.Charge.
func (c *charge) Declined() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lease.Declined(time.Now())
}

// End implements picker.Charge.
func (c *charge) End() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lease.End()
}

// Sender implements picker.Chooser. It returns this cluster's name and this process's ID.
func (l *Loads) Sender() string {
	if s := l.sender.Load(); s != nil {
		return *s
	}
	return l.id
}
