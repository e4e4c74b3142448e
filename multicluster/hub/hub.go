package hub

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

// Config is what a Hub needs.
type Config struct {
	// Imports are called with the pools of which a member's import may have changed, and Exports
	// with those of which a member's condition Exported may have. They must not call the Hub.
	Imports, Exports func(member string, pools []objectid.Pool)
	// Waited is called once all members have been read, or are waited for no longer: Settled has
	// changed. It may call the Hub.
	Waited func()
	// Drain is how long the requests of a withdrawn export may go on. Default: 10 minutes.
	Drain time.Duration
	// Grace is how long a member that has not been read yet is waited for. Default: 15 s, which is
	// also the lease of one that was.
	Grace time.Duration
	// Never is why an address may be in no import, as a phrase that follows it; "": it may. nil:
	// all may.
	Never func(netip.Addr) string
	Now   func() time.Time // this process's monotonic clock; time.Now if nil
}

// Member is one cluster of the set.
type Member struct {
	Name string
	// Allow limits what its exports do in the other members.
	Allow v1alpha1.ClusterSetAllow
	// Draining: the others send it no new request.
	Draining bool
	// Store has the objects of the member. Offers are put there, which only multicluster/imports
	// reads.
	Store *store.Store
	// Namespace reports whether a namespace exists there, or may be made.
	Namespace func(name string) bool
	// Own are the clusters of an import there whose entries this hub has written.
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

// member is a cluster of the set, as an importer and as an exporter.
type member struct {
	Member
	registry *registry.Registry // what is exported to it
	importer *imports.Importer
	placed   map[objectid.Pool]map[string]registry.Placement // of Assemble, by exporter
	written  map[objectid.Pool]Writing

	since     time.Time // when it became a member
	restored  bool      // what its imports have from this hub is known: before that, nothing is exported to it
	uid       string
	read      bool // Exports was called
	connected bool
	contacted time.Time
	stamp     registry.Stamp
	decisions map[objectid.Pool]export.Decision
	stamps    map[objectid.Pool]registry.Stamp // of the exports among them
	sizes     map[objectid.Pool]int            // of their entries, in bytes
	unfit     map[objectid.Pool]unfit
	unnamed   int    // pools of which no name is valid
	crowded   string // why not all of its exports have room at others; "": they have
}

// New makes a hub without members.
func New(c Config) *Hub {
	c.Grace = cmp.Or(c.Grace, 15*time.Second)
	if c.Now == nil {
		c.Now = time.Now
	}
	return &Hub{cfg: c, members: map[string]*member{}}
}

// changes are what the callbacks are called with, once no lock is held.
type changes struct {
	imports, exports map[string][]objectid.Pool
}

func (c *changes) add(to *map[string][]objectid.Pool, member string, pools ...objectid.Pool) {
	if *to == nil {
		*to = map[string][]objectid.Pool{}
	}
	(*to)[member] = append((*to)[member], pools...)
}

// call calls the callbacks.
func (h *Hub) call(c *changes) {
	for _, side := range []struct {
		of map[string][]objectid.Pool
		f  func(string, []objectid.Pool)
	}{{c.imports, h.cfg.Imports}, {c.exports, h.cfg.Exports}} {
		for _, name := range slices.Sorted(maps.Keys(side.of)) {
			pools := side.of[name]
			slices.SortFunc(pools, objectid.Pool.Compare)
			if side.f != nil {
				side.f(name, slices.Compact(pools))
			}
		}
	}
}

// SetMembers replaces the members. all: a pool that a member exports is an entry of its own import
// too. The exports of a member that is none any more drain.
func (h *Hub) SetMembers(list []Member, all bool) {
	var c changes
	defer h.call(&c)
	h.mu.Lock()
	defer h.mu.Unlock()
	now := map[string]*member{}
	h.all = all
	for _, m := range list {
		is := h.members[m.Name]
		if is == nil || is.Store != m.Store {
			is = &member{since: h.cfg.Now(), placed: map[objectid.Pool]map[string]registry.Placement{},
				written: map[objectid.Pool]Writing{}, stamps: map[objectid.Pool]registry.Stamp{}}
			is.registry = registry.New(registry.Config{Drain: h.cfg.Drain, Lease: h.cfg.Grace, Now: h.cfg.Now})
			is.importer = imports.New(imports.Config{
				Registry: is.registry, Store: m.Store, Namespace: m.Namespace, Own: m.Own, Self: m.Name,
			})
		}
		is.Member = m
		now[m.Name] = is
	}
	h.members = now
	h.meet(&c)
	for _, m := range h.sorted() {
		for p := range m.decisions {
			c.add(&c.exports, m.Name, p)
		}
		if m.read {
			h.distribute(&c, m)
		}
	}
}

// meet replaces the exporters of each member, and what they are allowed there. mu is held.
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

// Restore takes over what the imports of a member have from this hub, before its first Exports.
// Only then do exports of others reach it: what they have withdrawn meanwhile is among its imports,
// and drains.
func (h *Hub) Restore(name string, entries map[objectid.Pool][]inferenceapi.ImportedCluster) {
	var c changes
	defer h.call(&c)
	h.mu.Lock()
	defer h.mu.Unlock()
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
	h.assemble(&c, m, m.registry.Restore(records))
	m.restored = true
	for _, o := range h.sorted() {
		if o.read && (o != m || h.all) {
			h.pass(&c, o, m)
			if !o.connected {
				h.assemble(&c, m, m.registry.Connected(o.Name, false))
			}
		}
	}
}

// Exports passes all that a member exports, or is asked to. uid is that of its cluster. It returns
// how many exports have changed.
func (h *Hub) Exports(name, uid string, decisions []export.Decision) (news int) {
	var c changes
	defer h.call(&c)
	h.mu.Lock()
	defer h.mu.Unlock()
	m := h.members[name]
	if m == nil {
		return 0
	}
	before, rebuilt := m.decisions, m.uid != uid
	m.uid, m.decisions, m.connected, m.contacted = uid, make(map[objectid.Pool]export.Decision, len(decisions)), true,
		h.cfg.Now()
	unfitBefore := m.unfit
	m.sizes, m.unfit, m.unnamed = map[objectid.Pool]int{}, map[objectid.Pool]unfit{}, 0
	h.sequence++
	next := registry.Stamp{Epoch: 1, Sequence: h.sequence}
	changed := !m.read || rebuilt
	for _, d := range decisions {
		if !d.Pool.IsValid() { // no API server has it
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
			c.add(&c.exports, name, d.Pool)
		}
	}
	for p := range before {
		if _, stays := m.decisions[p]; !stays {
			delete(m.stamps, p)
			c.add(&c.exports, name, p)
			changed = true
			news++
		}
	}
	changed = changed || !reflect.DeepEqual(unfitBefore, m.unfit)
	if !m.read {
		m.read = true
		h.others(&c)
	}
	if changed {
		m.stamp = next
		h.distribute(&c, m)
	}
	return news
}

// distribute passes what a member exports to the registries of the others. mu is held.
func (h *Hub) distribute(c *changes, m *member) {
	m.crowded = ""
	for _, o := range h.sorted() {
		if o.restored && (o != m || h.all) {
			h.pass(c, m, o)
		}
	}
}

// pass passes what a member exports to another one. mu is held.
func (h *Hub) pass(c *changes, m, o *member) {
	changed, rejected := o.registry.Apply(m.snapshot(o))
	if len(rejected) > 0 {
		m.crowded = rejected[0].Problem
	}
	h.assemble(c, o, changed)
}

// snapshot is all that a member exports to another one.
func (m *member) snapshot(o *member) registry.Update {
	u := registry.Update{
		Member: m.Name, UID: m.uid, Stamp: m.stamp, Snapshot: true, Draining: m.Draining,
		Unread: map[objectid.Pool]string{},
	}
	receives := func(to []string) bool { return to == nil || o == m || slices.Contains(to, o.Name) }
	for p, d := range m.decisions { // registries share the lists of an entry: none changes them
		if e := d.Export; e != nil && receives(e.To) {
			u.Exports = append(u.Exports, registry.Export{
				Pool: p, Stamp: m.stamps[p], Entry: e.Entry, Size: m.sizes[p],
			})
		}
	}
	for p, not := range m.unfit {
		if receives(not.to) {
			u.Unread[p] = not.why
		}
	}
	slices.SortFunc(u.Exports, func(a, b registry.Export) int { return a.Pool.Compare(b.Pool) })
	return u
}

// Contact notes that the API server of a member has answered, as the cluster with a UID.
func (h *Hub) Contact(name, uid string) {
	h.reached(name, true, func(m, o *member) []objectid.Pool {
		if !m.read || m.uid != uid {
			return nil
		}
		u := registry.Update{Member: m.Name, UID: uid, Stamp: m.stamp, Draining: m.Draining}
		if is, _ := o.registry.Member(m.Name); is.UID != uid { // another cluster has had the name, and its lease ran on
			u = m.snapshot(o)
		}
		changed, _ := o.registry.Apply(u)
		return changed
	})
}

// Lost notes that it has not.
func (h *Hub) Lost(name string) {
	h.reached(name, false, func(m, o *member) []objectid.Pool {
		return o.registry.Connected(m.Name, false)
	})
}

func (h *Hub) reached(name string, is bool, f func(m, o *member) []objectid.Pool) {
	var c changes
	defer h.call(&c)
	h.mu.Lock()
	defer h.mu.Unlock()
	m := h.members[name]
	if m == nil {
		return
	}
	was := m.connected
	if m.connected = is; is {
		m.contacted = h.cfg.Now()
	}
	for _, o := range h.sorted() {
		if o.restored && (o != m || h.all) {
			h.assemble(&c, o, f(m, o))
		}
	}
	if was != is {
		h.others(&c)
	}
}

// others adds all exports: where they stand at a member may have changed. mu is held.
func (h *Hub) others(c *changes) {
	for _, o := range h.sorted() {
		for p := range o.decisions {
			c.add(&c.exports, o.Name, p)
		}
	}
}

// Namespaces notes that namespaces of a member have come or gone.
func (h *Hub) Namespaces(name string) {
	var c changes
	defer h.call(&c)
	h.mu.Lock()
	defer h.mu.Unlock()
	if m := h.members[name]; m != nil {
		h.assemble(&c, m, m.pools())
	}
}

// Taken notes that entries of another controller in the import of a pool have come or gone.
func (h *Hub) Taken(name string, p objectid.Pool) {
	var c changes
	defer h.call(&c)
	h.mu.Lock()
	defer h.mu.Unlock()
	if m := h.members[name]; m != nil && m.registry.Exported(p) {
		h.assemble(&c, m, []objectid.Pool{p})
	}
}

// pools are all that is exported to a member.
func (m *member) pools() (out []objectid.Pool) {
	for _, o := range m.registry.Members(nil) {
		for _, e := range m.registry.ExportsOf(o.Name) {
			out = append(out, e.Pool)
		}
	}
	slices.SortFunc(out, objectid.Pool.Compare)
	return slices.Compact(out)
}

// assemble brings the imports of some pools of a member up to date. mu is held.
func (h *Hub) assemble(c *changes, m *member, pools []objectid.Pool) {
	if len(pools) == 0 {
		return
	}
	a, err := m.importer.Assemble(pools)
	if err != nil {
		return // unreachable: a store in memory whose Offers have this one writer takes them
	}
	for _, p := range a.Pools {
		delete(m.placed, p)
	}
	for _, pl := range a.Placed {
		if m.placed[pl.Pool] == nil {
			m.placed[pl.Pool] = map[string]registry.Placement{}
		}
		m.placed[pl.Pool][pl.Member] = pl
		c.add(&c.exports, pl.Member, pl.Pool)
	}
	c.add(&c.imports, m.Name, a.Pools...)
}

// Import is the status of an import at a member, as far as it is this hub's; generation is that of
// the object. imported is false for one that needs no object.
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

// Run ends leases and drains as they are due, until ctx ends.
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

// expire is one step of Run. After Config.Grace, members that have not been read are waited for no
// longer.
func (h *Hub) expire(waited *bool) {
	var c changes
	defer h.call(&c)
	h.mu.Lock()
	defer h.mu.Unlock()
	over := true
	for _, m := range h.sorted() {
		if wait, ok := m.registry.Next(); ok && wait == 0 {
			h.assemble(&c, m, m.registry.Expire())
		}
		over = over && h.settled(m)
	}
	if over && !*waited {
		for _, m := range h.sorted() {
			c.add(&c.exports, m.Name, slices.Collect(maps.Keys(m.decisions))...)
		}
	}
	*waited = over
}
