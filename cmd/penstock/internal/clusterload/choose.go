package clusterload

import (
	"cmp"
	"crypto/rand"
	"log/slog"
	"maps"
	mathrand "math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/multicluster/selection"
	"github.com/penstock-project/penstock/picker"
	"github.com/penstock-project/penstock/picker/prefix"
	"github.com/penstock-project/penstock/picker/schedule"
)

// Config is what a Loads needs.
type Config struct {
	// Waiting is what a request finds at a pool of this process's picker, and how many blocks of
	// prompts its servers cache; false if that is not known.
	Waiting func(pool objectid.Pool) (w schedule.Wait, capacity int, ok bool)
	// Federation is this cluster's end of the exchange with members; nil while there is none.
	Federation func() Federation
	// Cluster is the name of this cluster in its set; "" while it is in none.
	Cluster func() string
	// OnPage receives why the metrics page of the picker of an import's cluster cannot be read, if
	// it is read over TLS; "": it is read. It may be nil.
	OnPage func(of objectid.Pool, member, why string)
	Log    *slog.Logger
}

// Loads chooses clusters, and reports the load of this one. It is safe for concurrent use.
type Loads struct {
	cfg    Config
	id     string // of this process, random
	sender atomic.Pointer[string]
	epoch  uint64

	mu      sync.RWMutex
	imports map[objectid.Target]*choosable
	changed bool // members are to be asked for other loads

	pools pools

	pagesMu sync.Mutex // after mu
	pages   map[pageKey]*page
}

// choosable are the clusters of an import.
type choosable struct {
	pool  objectid.Pool
	local string // the cluster of the list that is this one; "": none
	// latency: by how fast clusters answer. Nothing is reported of their load.
	latency bool
	hops    map[string]string
	noGRPC  map[string]bool // by member, as hops
	load    *selection.LeastLoad
	list    []picker.Cluster
}

var _ picker.Chooser = (*Loads)(nil)

// New makes a Loads without imports.
func New(c Config) *Loads {
	l := &Loads{cfg: c, id: rand.Text()[:16], epoch: uint64(time.Now().UnixNano()),
		imports: map[objectid.Target]*choosable{}, pages: map[pageKey]*page{}}
	l.pools.of = map[objectid.Pool]*counted{}
	return l
}

// SetClusters implements picker.Chooser.
func (l *Loads) SetClusters(id objectid.Target, c *picker.Clusters) {
	l.mu.Lock()
	if c == nil {
		delete(l.imports, id)
		l.changed = true
		l.mu.Unlock()
		return
	}
	local := ""
	if i := slices.IndexFunc(c.List, func(m picker.Cluster) bool { return m.Local }); i >= 0 {
		local = c.List[i].Name
	}
	was, is := l.imports[id], &choosable{pool: id.Pool, local: local, latency: c.Latency, list: c.List}
	is.hops, is.noGRPC = make(map[string]string, len(c.List)), map[string]bool{}
	for _, m := range c.List {
		is.hops[m.Name], is.noGRPC[m.Name] = m.Hop, m.NoGRPC
	}
	if was != nil && was.local == local && was.latency == c.Latency {
		was.load.SetMargin(c.Margin)
		is.load = was.load
	} else {
		is.load = selection.New(selection.Config{Local: local, Margin: c.Margin, Latency: c.Latency, End: prefix.End,
			Random: mathrand.Uint64})
	}
	is.setMembers(l.roundTrips(), l.servers)
	l.imports[id], l.changed = is, true
	l.mu.Unlock()
}

// setMembers passes the clusters on, with how far away each is, and how many servers each has: as
// its picker's page shows, or else as its exporter declares.
func (c *choosable) setMembers(roundTrip func(member string) time.Duration,
	servers func(of objectid.Pool, member string) int) {
	members := make([]selection.Member, len(c.list))
	for i, m := range c.list {
		members[i] = selection.Member{Name: m.Name, Servers: m.Servers}
		if !m.Local {
			shown := servers(c.pool, m.Name)
			members[i].RoundTrip, members[i].Servers, members[i].Empty = roundTrip(m.Name),
				max(cmp.Or(shown, m.Servers), 0), shown == noServers
		}
	}
	c.load.SetMembers(members)
}

// roundTrips returns how far members are away; 0 while that is not known.
func (l *Loads) roundTrips() func(string) time.Duration {
	if f := l.cfg.Federation(); f != nil {
		return f.RoundTrip
	}
	return func(string) time.Duration { return 0 }
}

// rankings is the memory of Choose, which the next one takes over.
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
	first := -1 // of those that may be named
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

// charge is a request at the cluster that was named first. The access log reports on it from
// several streams.
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

// Sender implements picker.Chooser: the name of this cluster, and of this process in it.
func (l *Loads) Sender() string {
	if s := l.sender.Load(); s != nil {
		return *s
	}
	return l.id
}

// standings returns what is known of the clusters of each import, by the import's name, sorted.
func (l *Loads) standings() (names []string, of map[string][]selection.Standing) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	of = make(map[string][]selection.Standing, len(l.imports))
	for _, c := range l.imports {
		of[c.pool.String()] = c.load.Standings(time.Now())
	}
	return slices.SortedFunc(maps.Keys(of), cmp.Compare), of
}
