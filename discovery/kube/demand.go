package kube

import (
	"slices"
	"sync"
	"time"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/discovery/store"
)

type reach int

const (
	whole reach = iota
	// parked watches every object. The store has the objects that translation reads. The other
	// objects are kept encoded, to save memory.
	parked
	// namespaces is like parked, but watches only the namespaces from which translation reads an
	// object.
	namespaces
	// named watches only the objects that translation reads, each by its name.
	named
)

// namedLinger is how long an object is still watched by name after its last demand ends, because
// users often restore a removed reference soon.
const namedLinger = time.Minute

// Demand is a key that translation reads, in an index of an on-demand table.
type Demand struct{ Table, Index, Key string }

// OnDemand lists the tables that hold only the objects for which Want has demands.
func OnDemand() (tables []string) {
	tables = append(tables, store.Occupants.Kind())
	for _, k := range kinds() {
		if k.reach != whole {
			tables = append(tables, k.table.Kind())
		}
	}
	return tables
}

// Want adds and removes demands for objects of on-demand tables. For each wanted demand, it returns
// a channel that closes once all existing objects with the demand's key have been read. Flush then
// puts them into the store.
func (s *Source) Want(wanted, unwanted []Demand) (read []<-chan struct{}) {
	s.occupants.want(occupied(wanted), occupied(unwanted))
	s.mu.Lock()
	kept := s.kept
	s.mu.Unlock()
	for _, d := range unwanted {
		if !kept[d] {
			s.unwant(d)
		}
	}
	for _, d := range wanted {
		read = append(read, s.want(d))
	}
	s.notify()
	return read
}

// Keep sets the demands of another reader than translation. Want does not end these demands. If a
// later call of Keep omits a demand, the demand ends only after translation has wanted and dropped
// it. The channels are as in Want.
func (s *Source) Keep(demands []Demand) (read []<-chan struct{}) {
	kept := map[Demand]bool{}
	for _, d := range demands {
		kept[d] = true
	}
	s.mu.Lock()
	s.kept = kept
	s.mu.Unlock()
	return s.Want(demands, nil)
}

// Park moves objects of parked kinds without a demand out of the store, and keeps such objects out
// of it afterwards. Before Park, the store has every object of these kinds.
func (s *Source) Park() {
	for _, g := range s.gates {
		g.shut()
	}
}

// Flush puts all objects that have been read into the store.
func (s *Source) Flush() error { return s.feed.flush() }

var alreadyRead = func() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

func occupied(demands []Demand) (out []Demand) {
	for _, d := range demands {
		if d.Table == store.Occupants.Kind() && (d.Index == store.ByID || d.Index == store.ByAddresses) {
			out = append(out, d)
		}
	}
	return out
}

func (s *Source) want(d Demand) <-chan struct{} {
	k := s.byTable[d.Table]
	if k == nil || k.reach == whole {
		return alreadyRead
	}
	g := s.gates[k]
	if g != nil {
		if d.Index != k.gate {
			return alreadyRead
		}
		g.want(d.Key)
	}
	switch k.reach {
	case namespaces:
		if ns := k.group(d.Key); s.reads(ns) {
			return s.demand(part{k, scope{namespace: ns}}).synced
		}
	case named:
		if ns, name := store.ParseID(d.Key); d.Index == store.ByID && s.reads(ns) {
			return s.demand(part{k, scope{ns, name}}).synced
		}
	}
	return alreadyRead
}

func (s *Source) unwant(d Demand) {
	k := s.byTable[d.Table]
	if k == nil || k.reach == whole {
		return
	}
	if g := s.gates[k]; g != nil {
		if d.Index == k.gate {
			g.unwant(d.Key)
		}
		return
	}
	if ns, name := store.ParseID(d.Key); d.Index == store.ByID {
		s.mu.Lock()
		defer s.mu.Unlock()
		if f := s.parts[part{k, scope{ns, name}}]; f != nil {
			f.until = time.Now().Add(namedLinger)
		}
	}
}

func (s *Source) demand(p part) *intake {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.parts[p]
	if f == nil {
		f = &following{intake: newIntake(s, p), version: p.kind.versions[0]}
		s.parts[p] = f
	}
	f.until = time.Time{}
	return f.intake
}

type packed interface {
	store.Object
	Marshal() ([]byte, error)
	Unmarshal([]byte) error
}

// gate puts the wanted objects of one kind into the store, and keeps other objects encoded.
type gate struct {
	kind  *kind
	feed  *feed
	store *store.Store

	mu     sync.Mutex
	open   bool                // every object is wanted, until the first translation ends
	wanted map[string]struct{} // demanded keys in the index kind.gate
	packed map[string][]byte
	group  map[string][]string // by id: the results of kind.group for the object's keys
	groups map[string][]string
}

func newGate(k *kind, f *feed, s *store.Store) *gate {
	return &gate{kind: k, feed: f, store: s, open: k.reach == parked, wanted: map[string]struct{}{},
		packed: map[string][]byte{}, group: map[string][]string{}, groups: map[string][]string{}}
}

func (g *gate) keys(obj store.Object) (keys []string) {
	for _, k := range g.kind.table.Keys(obj) {
		if k.Index == g.kind.gate {
			keys = append(keys, k.Key)
		}
	}
	return keys
}

func (g *gate) isWanted(keys []string) bool {
	if g.open {
		return len(keys) > 0
	}
	for _, k := range keys {
		if _, ok := g.wanted[k]; ok {
			return true
		}
	}
	return false
}

func (g *gate) put(obj store.Object) {
	g.mu.Lock()
	defer g.mu.Unlock()
	id, keys := store.ID(obj), g.keys(obj)
	inside := g.forget(id)
	switch {
	case g.isWanted(keys):
		g.remember(id, keys)
		g.feed.add(g.kind.table.PutObject(obj))
		return
	case inside:
		g.feed.add(g.kind.table.Delete(id))
	}
	g.park(id, keys, obj)
}

func (g *gate) delete(id string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.forget(id) {
		g.feed.add(g.kind.table.Delete(id))
	}
}

// park keeps an object encoded outside the store. It drops an object without a key, because no
// demand can match it.
func (g *gate) park(id string, keys []string, obj store.Object) {
	raw, err := obj.(packed).Marshal()
	if err != nil || len(keys) == 0 {
		return
	}
	g.remember(id, keys)
	g.packed[id] = raw
}

func (g *gate) remember(id string, keys []string) {
	for _, key := range keys {
		if group := g.kind.group(key); !slices.Contains(g.group[id], group) {
			g.group[id] = append(g.group[id], group)
			g.groups[group] = append(g.groups[group], id)
		}
	}
}

func (g *gate) forget(id string) (inside bool) {
	groups, known := g.group[id]
	if !known {
		return false
	}
	_, outside := g.packed[id]
	delete(g.packed, id)
	delete(g.group, id)
	for _, group := range groups {
		ids := g.groups[group]
		i := slices.Index(ids, id)
		if ids = slices.Delete(ids, i, i+1); len(ids) > 0 {
			g.groups[group] = ids
		} else {
			delete(g.groups, group)
		}
	}
	return !outside
}

// shut ends the phase after the start in which every object is wanted. Without this phase, the
// first translation would find its demands unfulfilled, and a large cluster would be translated
// twice.
func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.open {
		return
	}
	g.open = false
	if g.feed.flush() != nil {
		return
	}
	view := g.store.View()
	for id := range g.group {
		if obj, inside := g.kind.table.Object(view, id); inside {
			g.evict(id, obj)
		}
	}
}

// The caller holds g.mu.
func (g *gate) evict(id string, obj store.Object) {
	if keys := g.keys(obj); !g.isWanted(keys) {
		g.forget(id)
		g.feed.add(g.kind.table.Delete(id))
		g.park(id, keys, obj)
	}
}

func (g *gate) want(key string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.wanted[key] = struct{}{}
	for _, id := range g.groups[g.kind.group(key)] {
		raw, outside := g.packed[id]
		if !outside {
			continue
		}
		obj := g.kind.table.New()
		if err := obj.(packed).Unmarshal(raw); err != nil || !g.isWanted(g.keys(obj)) {
			continue
		}
		obj.GetObjectKind().SetGroupVersionKind(g.kind.gvk())
		delete(g.packed, id)
		g.feed.add(g.kind.table.PutObject(obj))
	}
}

func (g *gate) eachPacked(f func(store.Object)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, raw := range g.packed {
		obj := g.kind.table.New()
		if obj.(packed).Unmarshal(raw) == nil {
			f(obj)
		}
	}
}

func (g *gate) unwant(key string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.wanted, key)
	if g.feed.flush() != nil {
		return // feed.run returns the error; the remaining objects only take memory
	}
	view := g.store.View()
	for _, id := range slices.Clone(g.groups[g.kind.group(key)]) { // evict changes the list
		if obj, inside := g.kind.table.Object(view, id); inside {
			g.evict(id, obj)
		}
	}
}

func (s scope) String() string { return objectid.Join(s.namespace, s.name) }
