package publish

import (
	"slices"
	"time"

	"github.com/penstock-project/penstock/xds/resource"
)

// Difference is one resource of which the proxy does not have what it should have.
type Difference struct {
	resource.Ref
	// Served is the version that the proxy should have; empty: it should have none.
	Served string
	// Accepted is the version that it acknowledged last; empty: none, or one of an earlier stream
	// that this process does not know.
	Accepted string
	// State is "rejected" (a NACK), "sent" (waiting for an ACK), or "waiting" (for its turn in the
	// order of delivery, or for the proxy to subscribe to it or to unsubscribe from it).
	State string
	// Detail is Envoy's message of a NACK.
	Detail string
	// Since is when it became due; zero if it is not due.
	Since time.Time
}

// Differences lists what the proxy lacks, holds in another version, or still holds although it is
// removed; sorted by type and name. A proxy that has accepted everything has none.
func (s *Stream) Differences() []Difference {
	var out []Difference
	for t := range s.items {
		for _, it := range s.items[t] {
			d := Difference{Ref: it.slot.Ref}
			if it.want != nil {
				d.Served = it.want.Version
			}
			if it.have != nil {
				d.Accepted = it.have.Version
			}
			switch {
			case it.detail != "":
				d.State, d.Detail = "rejected", it.detail
			case it.flight != nil:
				d.State = "sent"
			default:
				d.State = "waiting"
			}
			if it.dirty {
				d.Since = it.since
			}
			out = append(out, d)
		}
	}
	slices.SortFunc(out, func(a, b Difference) int { return a.Compare(b.Ref) })
	return out
}
