package publish

import (
	"slices"
	"time"

	"github.com/penstock-project/penstock/xds/resource"
)

// Difference is a resource whose desired version the proxy does not have.
type Difference struct {
	resource.Ref
	// Served is the desired version; "" if the resource should not exist.
	Served string
	// Accepted is the last acknowledged version; "" if none is known.
	Accepted string
	// State is "rejected" (a NACK), "sent" (waiting for an ACK), or "waiting" (for other resources,
	// or for a subscription or its end).
	State string
	// Detail is Envoy's error detail of a NACK.
	Detail string
	// Since is when the desired version became due, or zero.
	Since time.Time
}

// Differences lists the proxy's differences, sorted by type and name.
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
