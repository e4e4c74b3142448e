package federation

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/multicluster/channel"
	"github.com/penstock-project/penstock/multicluster/export"
)

type publisher struct {
	uid             string // UID of the cluster; "": this process does not publish yet
	epoch, sequence uint64
	started         time.Time
	draining        bool
	records         map[objectid.Pool]record
}

type publication struct {
	some   bool
	items  []channel.Item
	gone   []string
	others bool // the members that receive a pool in parts changed
}

func (p *publisher) begin(uid string, epoch uint64) (items []channel.Item) {
	p.uid, p.epoch = uid, epoch
	p.sequence++
	for pool, r := range p.records {
		p.stamp(&r)
		if list, err := r.items(pool.String(), record{}); err == nil { // cannot fail: set has encoded this record
			p.records[pool] = r
			items = append(items, list...)
		}
	}
	return items
}

func (p *publisher) stamp(r *record) {
	r.Epoch, r.Sequence = p.epoch, p.sequence
	for i := range r.parts {
		r.parts[i].Epoch, r.parts[i].Sequence = p.epoch, p.sequence
	}
}

// set replaces the exports. An export that cannot be encoded keeps its previous version.
func (p *publisher) set(list []export.Export, draining bool) (c publication, err error) {
	p.sequence++
	var problems []error
	stays := make(map[objectid.Pool]bool, len(list))
	for _, e := range list {
		stays[e.Pool] = true
		old, k := p.records[e.Pool], e.Pool.String()
		r := record{Incarnation: e.Incarnation, Entry: e.Entry, Parts: partsFor(len(e.Entry.Endpoints), old.Parts),
			to: e.To}
		if r.Parts > 0 {
			r.parts, r.Entry.Endpoints = split(e.Entry.Endpoints, r.Parts), nil
		}
		p.stamp(&r)
		changed, err := r.items(k, old)
		if err != nil {
			problems = append(problems, fmt.Errorf("export %s: %w", k, err))
			continue
		}
		for i := r.Parts; i < old.Parts; i++ {
			c.gone = append(c.gone, partKey(k, i))
		}
		c.others = c.others || old.Parts > 0 && !sameMembers(old.to, r.to)
		if p.records == nil {
			p.records = map[objectid.Pool]record{}
		}
		p.records[e.Pool] = r
		c.items = append(c.items, changed...)
	}
	for pool, r := range p.records {
		if k := pool.String(); !stays[pool] {
			c.gone = append(c.gone, k)
			for i := range r.Parts {
				c.gone = append(c.gone, partKey(k, i))
			}
			delete(p.records, pool)
		}
	}
	if c.some = len(c.items) > 0 || len(c.gone) > 0 || draining != p.draining; !c.some {
		p.sequence--
	}
	p.draining = draining
	return c, errors.Join(problems...)
}

func (p *publisher) state(bundle []byte) channel.Item {
	value, _ := encoding.Marshal(cluster{ // cannot fail: the fields have basic types
		UID: p.uid, Epoch: p.epoch, Sequence: p.sequence, Started: p.started.UnixMilli(), Draining: p.draining,
		Bundle: string(bundle),
	})
	return channel.Item{Key: stateKey, Value: value}
}

// items returns the record and its parts to publish, without items that are equal in old, which
// keep their stamps.
func (r *record) items(key string, old record) (out []channel.Item, err error) {
	add := func(key string, value any) {
		raw, bad := encoding.Marshal(value)
		if bad == nil && len(raw) > maxRecord {
			bad = fmt.Errorf("it takes %d bytes, and members take at most %d", len(raw), maxRecord)
		}
		err = errors.Join(err, bad)
		out = append(out, channel.Item{Key: key, Value: raw})
	}
	known := old.Entry.Name != "" || old.Entry.RoutingMode != ""
	if known && old.Parts == r.Parts && old.Incarnation == r.Incarnation && sameMembers(old.to, r.to) &&
		reflect.DeepEqual(old.Entry, r.Entry) {
		r.Epoch, r.Sequence = old.Epoch, old.Sequence
	} else {
		add(key, r)
	}
	for i := range r.parts {
		if known && old.Parts == r.Parts && reflect.DeepEqual(old.parts[i].Endpoints, r.parts[i].Endpoints) {
			r.parts[i] = old.parts[i]
		} else {
			add(partKey(key, i), r.parts[i])
		}
	}
	return out, err
}

// sameMembers compares lists of receivers; nil means all members.
func sameMembers(a, b []string) bool { return slices.Equal(a, b) && (a == nil) == (b == nil) }
