package clusterset

import "time"

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
