package clusterset

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/penstock-project/penstock/multicluster/export"
)

// Exported reports whether other clusters may pick from a pool, "namespace/name": it is exported, or was within the drain time. Without a
// ClusterSet all pools may be: their imports are written by hand.
func (s *Set) Exported(pool string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.spec == nil {
		return true
	}
	until, ok := s.exported[pool]
	return ok && (until.IsZero() || time.Now().Before(until))
}

// noteExported notes which pools are exported now. mu is held.
func (s *Set) noteExported() {
	now := time.Now()
	for key, until := range s.exported {
		switch d := s.decisions[key]; {
		case d.Export != nil:
		case until.IsZero():
			s.exported[key] = now.Add(s.cfg.Drain)
		case now.After(until):
			delete(s.exported, key)
		}
	}
	for key, d := range s.decisions {
		if d.Export != nil {
			s.exported[key] = time.Time{}
		}
	}
}

// incarnate gives an export its incarnation: 0 if it is among the first that this process decides on, that of the one before if there is one for
// all of its members, else another one.
func (s *Set) incarnate(before, now *export.Export) {
	if now == nil {
		return
	}
	if before != nil && (before.To == nil || now.To != nil && !slices.ContainsFunc(now.To, func(m string) bool { return !slices.Contains(before.To, m) })) {
		now.Incarnation = before.Incarnation
		return
	}
	select {
	case <-s.decided:
		now.Incarnation = rand.Uint64() | 1
	default:
	}
}
