package federation

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/penstock-project/penstock/multicluster/channel"
	"github.com/penstock-project/penstock/multicluster/export"
	"github.com/penstock-project/penstock/multicluster/registry"
)

// Represented is what a hub publishes for a member that runs no Penstock.
type Represented struct {
	// UID names the member's cluster and this hub together: what another hub has published for it does not count beside this one's. Epoch is higher
	// in each later process of this hub.
	UID   string
	Epoch uint64
	// Exports are all that the member exports. Draining: it takes no new request of other members.
	Exports  []export.Export
	Draining bool
	// Alive: the member has answered now, which renews its lease.
	Alive bool
}

// Represent publishes for a member that SetMembers has named without an address, as the member itself would. Of others nothing is published. Call it
// in the order in which the facts are known.
func (f *Federation) Represent(name string, is Represented) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	p, ok := f.represented[name]
	if !ok {
		return nil // it is none any more
	}
	anew := p == nil || p.uid != is.UID || p.epoch != is.Epoch
	if anew {
		p = &publisher{}
		p.begin(is.UID, is.Epoch)
		f.represented[name] = p
	}
	c, err := p.set(is.Exports, is.Draining, f.audience.relayed)
	if !c.some && !anew && !is.Alive {
		return err
	}
	return errors.Join(err, f.pass(f.relayOf(f.exports), name, channel.Update{Snapshot: anew, Items: append(c.items, p.state(nil, nil)), Retracted: c.gone}))
}

// represent takes over which members of a hub run no Penstock: those without an address. It returns the members less those that were none of these
// before. mu is held.
func (f *Federation) represent(members []Member) (stay []Member) {
	names, relays, before := map[string]bool{}, []string{}, f.represented
	f.represented = map[string]*publisher{}
	for _, m := range members {
		if m.Address != "" {
			relays, stay = append(relays, m.Name), append(stay, m)
			continue
		}
		names[m.Name] = true
		if f.represented[m.Name] = before[m.Name]; before[m.Name] != nil {
			stay = append(stay, m)
		}
	}
	slices.Sort(relays)
	f.audience.represent(names, relays)
	return stay
}

// relayOf is a hub's relay of a topic.
func (f *Federation) relayOf(t *channel.Topic) *relay {
	return f.relays[slices.IndexFunc(f.relays, func(r *relay) bool { return r.topic == t })]
}

// reported passes on of which pools of represented members it has changed where they stand: by the keys, MEMBER/EXPORTER/NAMESPACE/NAME, of
// what members have published and retracted.
func (f *Federation) reported(items []channel.Item, gone []string) {
	if f.cfg.Reported == nil {
		return
	}
	keys := slices.Clone(gone)
	for _, it := range items {
		keys = append(keys, it.Key)
	}
	of := map[string]map[registry.Pool]bool{}
	for _, key := range keys {
		_, key, _ = strings.Cut(key, "/")
		exporter, key, _ := strings.Cut(key, "/")
		pool, err := parsePool(key)
		if err != nil || !f.audience.represents(exporter) {
			continue
		}
		if of[exporter] == nil {
			of[exporter] = map[registry.Pool]bool{}
		}
		of[exporter][pool] = true
	}
	for _, exporter := range slices.Sorted(maps.Keys(of)) {
		f.cfg.Reported(exporter, slices.SortedFunc(maps.Keys(of[exporter]), registry.Pool.Compare))
	}
}

// Placements are where the export of a member's pool stands at the members that this hub relays to, as far as they have reported it, sorted by member.
// One that is silent takes nothing back.
func (f *Federation) Placements(exporter string, pool registry.Pool) (out []registry.Placement) {
	r := f.relayOf(f.imports)
	key := exporter + "/" + poolKey(pool)
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, name := range slices.Sorted(maps.Keys(r.of)) {
		value, ok := r.of[name].items[key]
		if !ok {
			continue
		}
		if is, err := decodePlaced(pool, value); err == nil {
			is.Member = name
			out = append(out, is)
		}
	}
	return out
}
