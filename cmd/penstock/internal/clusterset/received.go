package clusterset

import (
	"context"
	"time"

	"github.com/penstock-project/penstock/multicluster/registry"
)

// apply takes what a member has published into the registry and the store.
func (s *Set) apply(updates ...registry.Update) {
	changed, rejected := s.registry.Apply(updates...)
	s.mu.Lock()
	for _, u := range updates {
		delete(s.rejected, u.Member)
	}
	for _, r := range rejected {
		s.rejected[r.Member] = r.Problem
		s.cfg.Log.Warn("an update of a member had no effect", "member", r.Member, "problem", r.Problem)
	}
	s.mu.Unlock()
	s.assemble(changed)
	s.report()
	s.wakeUp()
}

func (s *Set) disconnected(member string, is bool) {
	s.assemble(s.registry.Connected(member, is))
	s.report()
}

// placed notes where exports of this cluster stand at a member.
func (s *Set) placed(list []registry.Placement) {
	s.registry.Place(list...)
	s.report()
}

// assemble brings the imports of some pools up to date, and reports where they stand to their exporters.
func (s *Set) assemble(pools []registry.Pool) {
	if len(pools) == 0 {
		return
	}
	list, err := s.importer.Assemble(pools)
	if err == nil {
		err = s.federation.SetPlaced(pools, list)
	}
	if err != nil {
		s.cfg.Log.Error("exports of members cannot be imported", "error", err)
	}
}

func (s *Set) wakeUp() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// expire ends leases and drains as they are due.
func (s *Set) expire(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.wake:
		case <-timer.C:
			s.assemble(s.registry.Expire())
			s.report()
		}
		if wait, ok := s.registry.Next(); ok {
			timer.Reset(wait)
		} else {
			timer.Stop()
		}
	}
}
