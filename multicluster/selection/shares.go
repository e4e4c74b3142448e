package selection

import (
	"cmp"
	"fmt"
	"slices"
)

// MaxRatio bounds the ratio of two members' weights. Envoy limits how often a retry draws a member
// by weight. With a higher ratio, a declined request may not reach all members.
const MaxRatio = 100

// Candidate is a member among which a policy divides the requests.
type Candidate struct {
	Place
	// Weight is the member's weight in the import; 0: the member gets no requests.
	Weight uint32
	// Down means that the member takes no requests now. Only Priority uses it.
	Down bool
}

// Share is a member's endpoint in EDS. A member without a Share is not in EDS.
type Share struct {
	Name string
	// Weight is the member's weight among the members of the same Priority.
	Weight uint32
	// Priority is 0 for the members that Envoy tries first. Priorities have no gaps.
	Priority uint32
}

// Weighted divides requests, except retries, by weight: exactly, if Envoy uses round_robin. Shares
// are sorted by name. warning reports weights whose ratio exceeds MaxRatio.
func Weighted(members []Candidate) (shares []Share, warning string) {
	return tiers(members, func(Candidate) int { return 0 })
}

// Locality prefers members in the zone of own, this cluster, then in its region, then all others.
// Weights divide the requests within each group. Shares are sorted by priority, then by name.
func Locality(own Place, members []Candidate) (shares []Share, warning string) {
	return tiers(members, func(c Candidate) int {
		near := own.Region != "" && c.Region == own.Region
		switch {
		case c.Name == own.Name, near && own.Zone != "" && c.Zone == own.Zone:
			return 0
		case near:
			return 1
		}
		return 2
	})
}

// Priority sends all requests to the first member that is not down. The sequence is: the members in
// order, then own, then the others by name. If all are down, the first member gets the requests.
func Priority(own string, order []string, members []Candidate) []Share {
	place := func(c Candidate) int {
		if i := slices.Index(order, c.Name); i >= 0 {
			return i
		}
		if c.Name == own {
			return len(order)
		}
		return len(order) + 1
	}
	members = serving(members)
	slices.SortFunc(members, func(a, b Candidate) int {
		return cmp.Or(trueFirst(!a.Down, !b.Down), cmp.Compare(place(a), place(b)), cmp.Compare(a.Name, b.Name))
	})
	shares := make([]Share, len(members))
	for i, m := range members {
		shares[i] = Share{Name: m.Name, Weight: 1, Priority: uint32(i)}
	}
	return shares
}

func serving(members []Candidate) []Candidate {
	return slices.DeleteFunc(slices.Clone(members), func(c Candidate) bool { return c.Weight == 0 })
}

func tiers(members []Candidate, tier func(Candidate) int) (shares []Share, warning string) {
	members = serving(members)
	slices.SortFunc(members, func(a, b Candidate) int {
		return cmp.Or(cmp.Compare(tier(a), tier(b)), cmp.Compare(a.Name, b.Name))
	})
	var least, most Candidate
	priority := uint32(0)
	for i, m := range members {
		if i > 0 && tier(m) != tier(members[i-1]) {
			priority++
		}
		if i == 0 || tier(m) != tier(members[i-1]) {
			least, most = m, m
		}
		if m.Weight < least.Weight {
			least = m
		}
		if m.Weight > most.Weight {
			most = m
		}
		if uint64(most.Weight) > MaxRatio*uint64(least.Weight) {
			warning = fmt.Sprintf("the weights of %s (%d) and %s (%d) are more than %d:1 apart: a request that one "+
				"member declines may not reach all others",
				most.Name, most.Weight, least.Name, least.Weight, MaxRatio)
		}
		shares = append(shares, Share{Name: m.Name, Weight: m.Weight, Priority: priority})
	}
	return shares, warning
}
