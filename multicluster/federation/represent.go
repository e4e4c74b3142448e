package federation

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
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
		p.begin(is.UID, is.Epoch, f.audience.relayed)
		f.represented[name] = p
	}
	c, err := p.set(is.Exports, is.Draining, f.audience.relayed)
	if !c.some && !anew && !is.Alive {
		return err
	}
	return errors.Join(err, f.pass(f.relayOf(f.exports), name, channel.Update{Snapshot: anew, Items: append(c.items, p.state(nil, nil)), Retracted: c.gone}))
}

// RepresentPlaced reports for a represented member where exports of others stand there: Placement.Member is the exporting one. What is pending stays as
// it was reported before.
func (f *Federation) RepresentPlaced(name string, placed, pending []registry.Placement) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, ok := f.represented[name]; !ok {
		return nil // it is none any more
	}
	stays := map[string][]byte{}
	for _, p := range pending {
		stays[p.Member+"/"+poolKey(p.Pool)] = nil
	}
	for _, p := range placed {
		value, err := json.Marshal(placedOf(p))
		if err != nil {
			return fmt.Errorf("the import of %s at %s: %w", poolKey(p.Pool), name, err)
		}
		stays[p.Member+"/"+poolKey(p.Pool)] = value
	}
	r := f.relayOf(f.imports)
	var in channel.Update
	r.mu.RLock()
	of := r.of[name]
	for _, key := range slices.Sorted(maps.Keys(stays)) {
		if value := stays[key]; value != nil && (of == nil || !bytes.Equal(of.items[key], value)) {
			in.Items = append(in.Items, channel.Item{Key: key, Value: value})
		}
	}
	if of != nil {
		for key := range of.items {
			if _, is := stays[key]; !is && key != stateKey {
				in.Retracted = append(in.Retracted, key)
			}
		}
	}
	r.mu.RUnlock()
	if of != nil && len(in.Items)+len(in.Retracted) == 0 {
		return nil
	}
	return f.pass(r, name, in)
}

// forRepresented passes on what represented members have of a member: of what has changed with an update of it, or of all with nil.
func (f *Federation) forRepresented(member string, in *channel.Update) {
	if f.cfg.Passed == nil || !f.audience.representsAny() {
		return
	}
	f.passing.Lock() // so that what is passed on last is what the relay has
	defer f.passing.Unlock()
	r := f.relayOf(f.exports)
	u, to := registry.Update{Member: member}, map[registry.Pool][]string{}
	if !r.passed(&u, to, in) {
		return
	}
	f.cfg.Passed(u, to)
}

// passed fills in what forRepresented passes on; false: the relay has nothing of the member.
func (r *relay) passed(u *registry.Update, to map[registry.Pool][]string, in *channel.Update) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	of := r.of[u.Member]
	if of == nil {
		return false
	}
	state, err := decodeCluster(of.items[stateKey])
	if err != nil {
		return false // unreachable: the relay has decoded it
	}
	u.UID, u.Stamp, u.Draining = state.UID, registry.Stamp{Epoch: state.Epoch, Sequence: state.Sequence}, state.Draining
	records := map[string]bool{}
	if in == nil || in.Snapshot {
		u.Snapshot = true
		for key := range of.items {
			records[key] = true
		}
	} else {
		for _, it := range in.Items {
			records[strings.TrimSuffix(it.Key, audienceSuffix)] = true
		}
		for _, key := range in.Retracted {
			records[strings.TrimSuffix(key, audienceSuffix)] = true
		}
	}
	for _, key := range slices.Sorted(maps.Keys(records)) {
		pool, err := parsePool(key)
		if err != nil { // its state, or a part
			continue
		}
		value, is := of.items[key]
		if !is || of.to[key] == nil {
			u.Withdrawn = append(u.Withdrawn, pool)
			continue
		}
		e, _, err := decodeRecord(key, value)
		if err != nil {
			if u.Unread == nil {
				u.Unread = map[registry.Pool]string{}
			}
			u.Unread[pool], to[pool] = fmt.Sprintf("%.300v", err), of.to[key]
			continue
		}
		e.Entry.Endpoints, e.Size = nil, 0
		u.Exports, to[pool] = append(u.Exports, e), of.to[key]
	}
	return true
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
