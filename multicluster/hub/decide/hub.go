package decide

import (
	"cmp"
	"context"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/inferenceapi"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/multicluster/export"
	"github.com/penstock-project/penstock/multicluster/imports"
	"github.com/penstock-project/penstock/multicluster/registry"
)

// Config configures a Hub.
type Config struct {
	// Imports receives pools whose imports at a member may have changed, and Exports pools whose
	// condition may have changed. They must not call the Hub.
	Imports, Exports func(member string, pools []objectid.Pool)
	// Waited is called once every member is Settled. It may call the Hub.
	Waited func()
	// Drain is how long requests to a withdrawn export may continue. Default: 10 minutes.
	Drain time.Duration
	// Grace is how long the hub waits for a member's first read, and the lease of a read member.
	// Default: 15 s.
	Grace time.Duration
	// Never returns why no import may have an address, as a phrase that follows it; "": it may.
	Never func(netip.Addr) string
	Now   func() time.Time // the clock, with monotonic readings; nil: time.Now
}

// Member is one cluster of the set.
type Member struct {
	Name string
	// Allow limits the member's exports to the other members.
	Allow v1alpha1.ClusterSetAllow
	// Draining means that the member gets no new requests from other members.
	Draining bool
	// Store has the member's objects, and the Offers of multicluster/imports.
	Store *store.Store
	// Namespace reports whether a namespace exists in the member or may be created.
	Namespace func(name string) bool
	// Own returns the exporting clusters whose entries in the import of p this hub wrote.
	Own func(p objectid.Pool) []string
}

// Hub is safe for concurrent use.
type Hub struct {
	cfg Config

	mu       sync.Mutex
	members  map[string]*member
	all      bool
	sequence uint64
}

type member struct {
	Member
	registry *registry.Registry
	importer *imports.Importer
	placed   map[objectid.Pool]map[string]registry.Placement // keyed by pool, then by exporter
	written  map[objectid.Pool]Writing

	since     time.Time
	restored  bool // Restore was called; before, the member receives no exports of other members
	uid       string
	read      bool
	connected bool
	contacted time.Time
	stamp     registry.Stamp
	decisions map[objectid.Pool]export.Decision
	stamps    map[objectid.Pool]registry.Stamp
	sizes     map[objectid.Pool]int // size of each export, in bytes
	unfit     map[objectid.Pool]unfit
	unnamed   int
	crowded   string // why an importer's registry has no room for some exports; "": it has
}

// New makes a hub without members.
func New(c Config) *Hub {
	c.Grace = cmp.Or(c.Grace, 15*time.Second)
	if c.Now == nil {
		c.Now = time.Now
	}
	return &Hub{cfg: c, members: map[string]*member{}}
}

type changes struct {
	imports, exports map[string][]objectid.Pool
}

func add(to map[string][]objectid.Pool, member string, pools ...objectid.Pool) {
	to[member] = append(to[member], pools...)
}

// begin locks mu. end unlocks it, and then reports the changes.
func (h *Hub) begin() (c *changes, end func()) {
	h.mu.Lock()
	c = &changes{map[string][]objectid.Pool{}, map[string][]objectid.Pool{}}
	return c, func() {
		h.mu.Unlock()
		h.call(c)
	}
}

func (h *Hub) call(c *changes) {
	for _, side := range []struct {
		pools map[string][]objectid.Pool
		f     func(string, []objectid.Pool)
	}{{c.imports, h.cfg.Imports}, {c.exports, h.cfg.Exports}} {
		for _, name := range slices.Sorted(maps.Keys(side.pools)) {
			pools := side.pools[name]
			slices.SortFunc(pools, objectid.Pool.Compare)
			if side.f != nil {
				side.f(name, slices.Compact(pools))
			}
		}
	}
}

// SetMembers replaces the members. If all is true, each member also imports its own exports.
func (h *Hub) SetMembers(list []Member, all bool) {
	c, end := h.begin()
	defer end()
	now := map[string]*member{}
	h.all = all
	for _, m := range list {
		known := h.members[m.Name]
		if known == nil || known.Store != m.Store {
			known = &member{since: h.cfg.Now(), placed: map[objectid.Pool]map[string]registry.Placement{},
				written: map[objectid.Pool]Writing{}, stamps: map[objectid.Pool]registry.Stamp{}}
			known.registry = registry.New(registry.Config{Drain: h.cfg.Drain, Lease: h.cfg.Grace, Now: h.cfg.Now})
			known.importer = imports.New(imports.Config{
				Registry: known.registry, Store: m.Store, Namespace: m.Namespace, Own: m.Own, Self: m.Name,
			})
		}
		known.Member = m
		now[m.Name] = known
	}
	h.members = now
	h.meet(c)
	for _, m := range h.sorted() {
		for p := range m.decisions {
			add(c.exports, m.Name, p)
		}
		if m.read {
			h.distribute(c, m)
		}
	}
}

// The caller holds mu.
func (h *Hub) meet(c *changes) {
	for _, m := range h.sorted() {
		allow := map[string]v1alpha1.ClusterSetAllow{}
		for _, o := range h.members {
			if o != m || h.all {
				allow[o.Name] = o.Allow
			}
		}
		changed := m.registry.SetMembers(slices.Collect(maps.Keys(allow)))
		h.assemble(c, m, append(changed, m.importer.SetAllow(allow)...))
	}
}

func (h *Hub) sorted() []*member {
	return slices.SortedFunc(maps.Values(h.members), func(a, b *member) int { return cmp.Compare(a.Name, b.Name) })
}

// Restore receives the entries that the hub wrote earlier into a member's imports. Before, the
// member receives no exports of other members. Call it before Exports for the member.
func (h *Hub) Restore(name string, entries map[objectid.Pool][]inferenceapi.ImportedCluster) {
	c, end := h.begin()
	defer end()
	m := h.members[name]
	if m == nil {
		return
	}
	var records []registry.Record
	for p, list := range entries {
		for _, e := range list {
			e.Conditions = nil
			records = append(records, registry.Record{RecordID: registry.RecordID{Cluster: e.Name, Pool: p}, Entry: e})
		}
	}
	h.assemble(c, m, m.registry.Restore(records))
	m.restored = true
	for _, o := range h.sorted() {
		if o.read && (o != m || h.all) {
			h.pass(c, o, m)
			if !o.connected {
				h.assemble(c, m, m.registry.Connected(o.Name, false))
			}
		}
	}
}

// Exports replaces a member's exports. decisions has the decision on each of its pools. news counts
// the changed exports.
func (h *Hub) Exports(name, uid string, decisions []export.Decision) (news int) {
	c, end := h.begin()
	defer end()
	m := h.members[name]
	if m == nil {
		return 0
	}
	before, unfitBefore, changed := m.decisions, m.unfit, !m.read || m.uid != uid
	m.uid, m.connected, m.contacted = uid, true, h.cfg.Now()
	m.decisions = make(map[objectid.Pool]export.Decision, len(decisions))
	m.sizes, m.unfit, m.unnamed = map[objectid.Pool]int{}, map[objectid.Pool]unfit{}, 0
	h.sequence++
	next := registry.Stamp{Epoch: 1, Sequence: h.sequence}
	for _, d := range decisions {
		if !d.Pool.IsValid() {
			m.unnamed++
			continue
		}
		d = m.fit(h.within(d, m.Allow))
		m.decisions[d.Pool] = d
		old := before[d.Pool]
		if !reflect.DeepEqual(old.Export, d.Export) {
			m.stamps[d.Pool], changed = next, true
			news++
		}
		if !reflect.DeepEqual(old, d) {
			add(c.exports, name, d.Pool)
		}
	}
	for p := range before {
		if _, stays := m.decisions[p]; !stays {
			delete(m.stamps, p)
			add(c.exports, name, p)
			changed = true
			news++
		}
	}
	changed = changed || !reflect.DeepEqual(unfitBefore, m.unfit)
	if !m.read {
		m.read = true
		h.others(c)
	}
	if changed {
		m.stamp = next
		h.distribute(c, m)
	}
	return news
}

// The caller holds mu.
func (h *Hub) distribute(c *changes, m *member) {
	m.crowded = ""
	for _, o := range h.sorted() {
		if o.restored && (o != m || h.all) {
			h.pass(c, m, o)
		}
	}
}

// The caller holds mu.
func (h *Hub) pass(c *changes, m, o *member) {
	changed, rejected := o.registry.Apply(m.snapshot(o))
	if len(rejected) > 0 {
		m.crowded = rejected[0].Problem
	}
	h.assemble(c, o, changed)
}

func (m *member) snapshot(o *member) registry.Update {
	u := registry.Update{
		Member: m.Name, UID: m.uid, Stamp: m.stamp, Snapshot: true, Draining: m.Draining,
		Unread: map[objectid.Pool]string{},
	}
	receives := func(to []string) bool { return to == nil || o == m || slices.Contains(to, o.Name) }
	for p, d := range m.decisions { // registries share an entry's lists, and never change them
		if e := d.Export; e != nil && receives(e.To) {
			u.Exports = append(u.Exports, registry.Export{
				Pool: p, Stamp: m.stamps[p], Entry: e.Entry, Size: m.sizes[p],
			})
		}
	}
	for p, bad := range m.unfit {
		if receives(bad.to) {
			u.Unread[p] = bad.why
		}
	}
	slices.SortFunc(u.Exports, func(a, b registry.Export) int { return a.Pool.Compare(b.Pool) })
	return u
}

// Contact records that a member's API server responded. uid is the UID of its cluster.
func (h *Hub) Contact(name, uid string) {
	h.reached(name, true, func(m, o *member) []objectid.Pool {
		if !m.read || m.uid != uid {
			return nil
		}
		u := registry.Update{Member: m.Name, UID: uid, Stamp: m.stamp, Draining: m.Draining}
		// o may lack the last update, because another cluster of this name had the lease when it
		// came
		if old, _ := o.registry.Member(m.Name); old.UID != uid {
			u = m.snapshot(o)
		}
		changed, _ := o.registry.Apply(u)
		return changed
	})
}

// Lost records that a member's API server did not respond.
func (h *Hub) Lost(name string) {
	h.reached(name, false, func(m, o *member) []objectid.Pool {
		return o.registry.Connected(m.Name, false)
	})
}

func (h *Hub) reached(name string, connected bool, f func(m, o *member) []objectid.Pool) {
	c, end := h.begin()
	defer end()
	m := h.members[name]
	if m == nil {
		return
	}
	before := m.connected
	if m.connected = connected; connected {
		m.contacted = h.cfg.Now()
	}
	for _, o := range h.sorted() {
		if o.restored && (o != m || h.all) {
			h.assemble(c, o, f(m, o))
		}
	}
	if before != connected {
		h.others(c)
	}
}

// The caller holds mu.
func (h *Hub) others(c *changes) {
	for _, o := range h.sorted() {
		for p := range o.decisions {
			add(c.exports, o.Name, p)
		}
	}
}

// Namespaces recomputes a member's imports after namespaces were created or deleted there.
func (h *Hub) Namespaces(name string) {
	c, end := h.begin()
	defer end()
	if m := h.members[name]; m != nil {
		h.assemble(c, m, m.registry.Pools())
	}
}

// Taken recomputes a member's import of a pool after other controllers changed its entries.
func (h *Hub) Taken(name string, p objectid.Pool) {
	c, end := h.begin()
	defer end()
	if m := h.members[name]; m != nil && m.registry.Exported(p) {
		h.assemble(c, m, []objectid.Pool{p})
	}
}

// The caller holds mu.
func (h *Hub) assemble(c *changes, m *member, pools []objectid.Pool) {
	if len(pools) == 0 {
		return
	}
	a, err := m.importer.Assemble(pools)
	if err != nil {
		return
	}
	for _, p := range a.Pools {
		delete(m.placed, p)
	}
	for _, pl := range a.Placed {
		if m.placed[pl.Pool] == nil {
			m.placed[pl.Pool] = map[string]registry.Placement{}
		}
		m.placed[pl.Pool][pl.Member] = pl
		add(c.exports, pl.Member, pl.Pool)
	}
	add(c.imports, m.Name, a.Pools...)
}

// Import returns this hub's part of the status of an import at a member. imported is false if the
// member needs no import of the pool.
func (h *Hub) Import(name string, p objectid.Pool, generation int64) (s inferenceapi.InferencePoolImportStatus,
	imported bool) {
	h.mu.Lock()
	m := h.members[name]
	h.mu.Unlock()
	if m == nil {
		return s, false
	}
	s, imported = m.importer.Status(p, generation)
	for i := range s.Clusters {
		s.Clusters[i].Local = s.Clusters[i].Name == name
	}
	return s, imported
}

// Run ends leases and drains at their deadlines, until ctx ends.
func (h *Hub) Run(ctx context.Context) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	waited := false
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		before := waited
		if h.expire(&waited); waited && !before && h.cfg.Waited != nil {
			h.cfg.Waited()
		}
	}
}

func (h *Hub) expire(waited *bool) {
	c, end := h.begin()
	defer end()
	over := true
	for _, m := range h.sorted() {
		if wait, ok := m.registry.Next(); ok && wait == 0 {
			h.assemble(c, m, m.registry.Expire())
		}
		over = over && h.settled(m)
	}
	if over && !*waited {
		for _, m := range h.sorted() {
			add(c.exports, m.Name, slices.Collect(maps.Keys(m.decisions))...)
		}
	}
	*waited = over
}
