package publish

import (
	"slices"
	"strconv"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/penstock-project/penstock/xds/cache"
	"github.com/penstock-project/penstock/xds/resource"
)

// StateRequest is a proxy's request for one type in the state-of-the-world protocol.
type StateRequest struct {
	Type resource.Type
	// Names are all subscribed names. For clusters and listeners, an empty list means all.
	Names []string
	// Version is the last accepted version, in a first request perhaps of an earlier stream.
	Version string
	Nonce   string
	Error   string
}

// HandleState is Handle for a state-of-the-world stream.
func (s *Stream) HandleState(r StateRequest, now time.Time) {
	s.answered(Request{Type: r.Type, Nonce: r.Nonce, Error: r.Error}, now)
	first := s.first[r.Type]
	s.resumed = s.resumed || first && r.Version != ""
	s.first[r.Type] = false
	if wildcardTypes[r.Type] && len(r.Names) == 0 {
		if first {
			s.wildcard[r.Type] = true
			s.resume(r, s.cursor.Each(r.Type), now)
		}
		return
	}
	names := make(map[string]bool, len(r.Names))
	for _, n := range r.Names {
		names[n] = true
	}
	var gone []string
	for id := range s.subscribed.all {
		if slot := s.cursor.Slot(id); slot.Type == r.Type && !names[slot.Name] {
			gone = append(gone, slot.Name)
		}
	}
	slots := s.cursor.AcquireAll(r.Type, slices.Values(r.Names))
	if first && s.resume(r, slots, now) {
		for _, slot := range slots {
			s.subscribed.set(slot.ID)
			if s.owed[slot] {
				s.resend(slot, now)
			}
		}
	} else {
		for _, slot := range slots {
			if s.subscribed.has(slot.ID) {
				s.cursor.Release(slot)
				continue
			}
			if first && r.Version != "" && slot.Current() == nil {
				s.subscribed.set(slot.ID)
				// A resumed proxy most likely has the removed resource, and a placeholder would
				// replace it.
				continue
			}
			s.subscribe(slot, false, now)
		}
	}
	s.unsubscribe(r.Type, slices.Values(gone), now)
	s.firstRequestDone(r.Type)
}

// If the proxy's resources equal the desired resources, nothing is sent, and resume returns true.
// Otherwise all clusters or listeners become due.
func (s *Stream) resume(r StateRequest, slots []*cache.Slot, now time.Time) bool {
	var entries []*cache.Entry
	for _, slot := range slots {
		if e := slot.Current(); e != nil {
			entries = append(entries, e)
		} else if p := cache.Placeholder(slot); p != nil {
			entries = append(entries, p)
		}
	}
	slices.SortFunc(entries, func(a, b *cache.Entry) int { return a.Ref.Compare(b.Ref) })
	if r.Version != "" && r.Version == stateVersion(entries) {
		for _, e := range entries {
			s.hold(e.Slot)
			s.noteAccepted(e)
			s.resumedWith(e)
		}
		return true
	}
	if s.wildcard[r.Type] {
		for _, e := range entries {
			s.setWant(s.itemOf(e.Slot), e, now)
		}
		s.unanswered[r.Type] = true
	}
	return false
}

func (s *Stream) noteAccepted(e *cache.Entry) {
	if s.config.StateOfTheWorld && wildcardTypes[e.Type] {
		s.accepted[e.Slot] = e
		if e.Type == resource.Cluster {
			s.carried[e.Slot] = e.Version
		}
	}
}

// completeState adds unchanged clusters or listeners, because Envoy removes missing resources in
// state of the world.
func (s *Stream) completeState(r *Response) {
	r.Removed = nil
	if wildcardTypes[r.Type] {
		changed := make(map[*cache.Slot]bool, len(r.parts))
		for _, p := range r.parts {
			changed[p.it.slot] = true
		}
		for id := range s.held.all {
			slot := s.cursor.Slot(id)
			if slot.Type != r.Type || changed[slot] {
				continue
			}
			e := s.accepted[slot]
			if it := s.items[slot.Type][slot]; it != nil && it.flight != nil {
				e = it.inFlight()
			}
			if e != nil {
				r.Upserts = append(r.Upserts, e)
				s.carry(r, e)
			}
		}
		for _, p := range r.parts {
			if p.entry != nil && r.Type == resource.Cluster {
				s.carried[p.entry.Slot] = p.entry.Version
			}
		}
		slices.SortFunc(r.Upserts, func(a, b *cache.Entry) int { return a.Ref.Compare(b.Ref) })
	}
	r.Version = stateVersion(r.Upserts)
}

// After a NACK Envoy may have applied a newer version of the cluster. The response r then reverts
// the cluster to e.
func (s *Stream) carry(r *Response, e *cache.Entry) {
	if e.Type == resource.Cluster && s.carried[e.Slot] != e.Version {
		s.carried[e.Slot] = e.Version
		r.carried = append(r.carried, e)
	}
}

// stateVersion is equal on all replicas. A response of endpoints or routes may be partial, so a
// proxy cannot resume with its version.
func stateVersion(entries []*cache.Entry) string {
	var d xxhash.Digest
	d.Reset()
	for _, e := range entries {
		_, _ = d.WriteString(e.Name)
		_, _ = d.WriteString("\x00" + e.Version + "\x00")
	}
	return strconv.FormatUint(d.Sum64(), 36)
}
