package set

import (
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/multicluster/export"
)

// audience has the time when each member's permission to use a pool ends; zero: never. The key ""
// stands for clusters that have not proven a name by a certificate.
type audience map[string]time.Time

const unnamed = ""

func (a audience) has(who string, now time.Time) bool {
	until, ok := a[who]
	return ok && (until.IsZero() || now.Before(until))
}

// Exported reports whether a member may pick from a pool. After an export ends, the member may pick
// until Config.Drain has passed. member is "" for a cluster that has not proven a name by a
// certificate. Without a ClusterSet, such a cluster may use all pools.
func (s *Set) Exported(target objectid.Target, member string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.adopted.spec == nil {
		return member == unnamed
	}
	return !target.Imported() && s.exported[target.Pool].has(member, time.Now())
}

// The caller holds mu.
func (s *Set) noteExported(members []string) {
	now := time.Now()
	for key, a := range s.exported {
		d := s.local.decisions[key]
		for who, until := range a {
			switch {
			case who != unnamed && !slices.Contains(members, who):
				delete(a, who) // the member left the set, so its certificate is not trusted
			case who == unnamed && d.Export != nil || who != unnamed && isFor(d, who):
			case until.IsZero():
				a[who] = now.Add(s.cfg.Drain)
			case now.After(until):
				delete(a, who)
			}
		}
		if len(a) == 0 {
			delete(s.exported, key)
		}
	}
	for key, d := range s.local.decisions {
		if d.Export == nil && !d.Valid {
			continue
		}
		if s.exported[key] == nil {
			s.exported[key] = audience{}
		}
		if d.Export != nil {
			s.exported[key][unnamed] = time.Time{}
		}
		for _, m := range members {
			if isFor(d, m) {
				s.exported[key][m] = time.Time{}
			}
		}
	}
}

// isFor reports whether the annotations let a member use a pool. The export may lack an address,
// because Gateways must serve a pool before members use it.
func isFor(d export.Decision, member string) bool {
	return d.Asked && d.Valid && (d.To == nil || slices.Contains(d.To, member))
}

func (s *Set) publishExports() error {
	s.publishing.Lock()
	defer s.publishing.Unlock()
	now, wanted := time.Now(), map[objectid.Pool][]string{}
	s.mu.Lock()
	if s.adopted.spec != nil {
		for key, a := range s.exported {
			for _, who := range slices.Sorted(maps.Keys(a)) {
				if who != unnamed && a.has(who, now) {
					wanted[key] = append(wanted[key], who)
				}
			}
		}
	}
	s.mu.Unlock()
	var ops []store.Op
	for _, e := range store.Exports.All(s.cfg.Store.View()) {
		key := objectid.PoolOf(e)
		switch members, ok := wanted[key]; {
		case !ok:
			ops = append(ops, store.Exports.Delete(key.String()))
		case slices.Equal(members, e.Members):
			delete(wanted, key)
		}
	}
	for _, key := range slices.SortedFunc(maps.Keys(wanted), objectid.Pool.Compare) {
		e := &store.Export{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name},
			Members: wanted[key]}
		ops = append(ops, store.Exports.Put(e))
	}
	if len(ops) == 0 {
		return nil
	}
	_, err := s.cfg.Store.Apply(ops...)
	return err
}

func (s *Set) nextExport() (wait time.Duration, ok bool) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.exported {
		for _, until := range a {
			if w := until.Sub(now); w > 0 && (!ok || w < wait) { // a zero until is in the past
				wait, ok = w, true
			}
		}
	}
	return wait, ok
}

// incarnate sets the Incarnation of the export now: the number of before if it continues before, 0
// in this process's first decisions, and otherwise a random number.
func (s *Set) incarnate(before, now *export.Export) {
	if now == nil {
		return
	}
	if now.Continues(before) {
		now.Incarnation = before.Incarnation
		return
	}
	if closed(s.signals.decided) {
		now.Incarnation = rand.Uint64() | 1
	}
}

// The caller holds mu.
func (s *Set) noteNamespaces() (changed bool) {
	var now []string
	for _, d := range s.local.decisions {
		if d.Export != nil {
			now = append(now, d.Pool.Namespace)
		}
	}
	slices.Sort(now)
	before := s.adopted.exporting
	s.adopted.exporting = slices.Compact(now)
	return !slices.Equal(before, s.adopted.exporting)
}
