package simulation

import (
	"math/rand/v2"
	"time"
)

// knowing is the reference of a ClusterSet: one picker for all gateways, which learns each pick,
// first byte, end and death at once.
type knowing struct {
	*books
	first  []int // server of each cluster
	run    *setRun
	random *rand.Rand
	picks  []*Pick
	dead   int // -1 if none
}

func newKnowing(r *setRun) *knowing {
	k := &knowing{run: r, random: rand.New(rand.NewPCG(r.Seed, 999)), picks: make([]*Pick, len(r.outcomes)), dead: -1}
	servers := 0
	for _, m := range r.Members {
		k.first = append(k.first, servers)
		servers += m.Servers
	}
	k.books = newBooks(Pool{Servers: servers, Room: servers, Config: r.Members[0].Server, Workload: r.Workload},
		r.Members[0].Server.Blocks)
	for c, m := range r.Members {
		for s := range m.Servers {
			k.accounts[k.first[c]+s].rate = m.Server.PrefillRate
		}
	}
	return k
}

func (k *knowing) clusterOf(server int) int {
	c := len(k.first) - 1
	for k.first[c] > server {
		c--
	}
	return c
}

func (k *knowing) choose(now time.Duration, number int, r *Request) (cluster, server int) {
	from := k.run.Enter[number]
	best := argmin(k.servers, k.random, func(s int) float64 {
		c := k.clusterOf(s)
		cost := k.cost(s, now, r) + (k.run.Delays[from][c] + k.run.Delays[c][from]).Seconds()
		if c == k.dead {
			cost += 1e9
		}
		return cost
	})
	pick := &Pick{Choice: k.choice(best, now, r), Request: r, At: now}
	k.picks[number] = pick
	k.Learn(now, Fact{Kind: Picked, Pick: pick})
	cluster = k.clusterOf(best)
	return cluster, best - k.first[cluster]
}

func (k *knowing) learn(now time.Duration, number int, kind Kind) {
	k.Learn(now, Fact{Kind: kind, Pick: k.picks[number]})
}

type directed struct{ server int }

func (d *directed) Choose(time.Duration, *Request) Choice { return Choice{Server: d.server} }

func (d *directed) Learn(time.Duration, Fact) {}
