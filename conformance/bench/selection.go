package main

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/penstock-project/penstock/multicluster/selection"
	"github.com/penstock-project/penstock/picker/simulation"
)

// gateway is package selection, as it is, at one gateway of a simulated cluster set.
type gateway struct {
	load    *selection.LeastLoad
	names   []string
	numbers map[string]int
	work    *simulation.Workload
	leases  []selection.Lease // by request
	ranked  []selection.Choice
	chain   []uint64
}

// virtual is the beginning of virtual time.
var virtual = time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)

// newGateway returns the gateway of a cluster, with a margin for the own cluster.
func newGateway(margin time.Duration) func(int, *simulation.ClusterSet, *rand.Rand) simulation.Selector {
	return func(cluster int, s *simulation.ClusterSet, random *rand.Rand) simulation.Selector {
		g := &gateway{numbers: map[string]int{}, work: s.Workload,
			leases: make([]selection.Lease, len(s.Workload.Requests))}
		var members []selection.Member
		for c := range s.Members {
			name := fmt.Sprintf("c%02d", c)
			g.names, g.numbers[name] = append(g.names, name), c
			members = append(members, selection.Member{
				Name: name, RoundTrip: s.Delays[cluster][c] + s.Delays[c][cluster],
			})
		}
		g.load = selection.New(selection.Config{Local: g.names[cluster], Margin: margin, Random: random.Uint64,
			End: func(i int) int { return (i + 1) * simulation.BlockTokens }})
		g.load.SetMembers(members)
		return g
	}
}

// Choose implements simulation.Selector: the best member that has not declined the request, as
// Envoy does with a ranking.
func (g *gateway) Choose(now time.Duration, number int, r *simulation.Request, declined []bool) int {
	at := virtual.Add(now)
	g.chain = g.work.Chain(r, g.chain[:0])
	p := selection.Prompt{Tokens: r.Input, Chain: g.chain}
	g.ranked = g.load.Rank(at, p, g.ranked[:0])
	choice := g.ranked[0]
	for _, c := range g.ranked {
		if declined == nil || !declined[g.numbers[c.Member]] {
			choice = c
			break
		}
	}
	g.leases[number] = g.load.Begin(at, choice, p)
	return g.numbers[choice.Member]
}

// Learn implements simulation.Selector.
func (g *gateway) Learn(now time.Duration, number int, k simulation.Kind) {
	switch lease := &g.leases[number]; k {
	case simulation.FirstByte:
		lease.FirstByte()
	case simulation.Ended:
		lease.End()
	case simulation.Declined:
		lease.Declined(virtual.Add(now))
	}
}

// Report implements simulation.Selector.
func (g *gateway) Report(now time.Duration, r simulation.Report) {
	g.load.Report(virtual.Add(now), g.names[r.Cluster],
		selection.Report{Least: r.Least, Servers: r.Servers, Rate: r.Rate, Counted: uint64(r.Counted), Epoch: 1,
			Blocks: r.Blocks, Capacity: r.Cached, Interval: r.Every})
}

// news collects the blocks of a simulated cluster's reports.
func news(cluster int, s *simulation.ClusterSet) simulation.News {
	m := s.Members[cluster]
	return selection.NewNews(s.Seed, m.Servers*m.Server.Blocks)
}
