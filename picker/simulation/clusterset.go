package simulation

import (
	"math/rand/v2"
	"time"
)

// ClusterSet is a scenario of several clusters. Each has servers, a picker that chooses among them,
// and a gateway that chooses among the clusters for its requests.
type ClusterSet struct {
	Workload *Workload
	// Enter is each request's entry cluster.
	Enter   []int
	Members []Member
	Delays  [][]time.Duration
	// Picker is each cluster's strategy for servers.
	Picker Strategy
	// Gateway returns a gateway's Selector. Nil is the reference: one picker with exact knowledge
	// chooses among all clusters' servers for all gateways, by the cost of strategy "reference" and
	// the round trip. Asking it takes no time.
	Gateway func(cluster int, s *ClusterSet, random *rand.Rand) Selector
	// News returns the collector of new blocks of prompts at a cluster, for its reports. Required
	// with Gateway.
	News func(cluster int, s *ClusterSet) News
	// DiesAt is when cluster Dies dies: it loses its requests, declines others, and stops
	// reporting. Its gateway stays. 0 means never.
	DiesAt time.Duration
	Dies   int
	Seed   uint64
}

// Member is one cluster. Zero values mean the defaults given.
type Member struct {
	Servers int // default 8
	Server  ServerConfig
	// Every is the time between two reports; default 200 ms, negative disables them.
	Every time.Duration
}

// Selector is one gateway's choice among clusters.
type Selector interface {
	// Choose returns the cluster for a request. declined marks clusters that declined it before.
	Choose(now time.Duration, number int, r *Request, declined []bool) (cluster int)
	// Learn receives that the last choice declined, a request's reported first byte, or its end.
	Learn(now time.Duration, number int, k Kind)
	// Report receives a cluster's report.
	Report(now time.Duration, r Report)
}

// News collects blocks.
type News interface {
	Add(chain []uint64)
	Take(out []uint64) (blocks []uint64, dropped int)
}

// Report is a cluster's report for one gateway.
type Report struct {
	Cluster int
	Least   float64 // seconds until its least loaded server has read its prompts
	Servers int
	Rate    float64 // of a server, in tokens a second
	Counted int     // total number of this gateway's requests that have arrived
	Blocks  []uint64
	Cached  int // total of its servers
	Every   time.Duration
}

type waiter interface {
	Wait(now time.Duration) (least float64, servers int, rate float64)
}

// Wait implements waiter.
func (d *production) Wait(now time.Duration) (least float64, servers int, rate float64) {
	w, _ := d.strategy.Wait(epoch.Add(now), d.snapshot.Endpoints)
	return w.Least, w.Servers, w.Rate
}

// Routed is the outcome of a ClusterSet's request. Times are the server's, except Seen.
type Routed struct {
	Outcome
	Cluster int
	// Seen is when the request's gateway has the first byte.
	Seen time.Duration
	// Declined counts the declines. Lost means that its cluster died while it was in flight.
	Declined int
	Lost     bool
}

// Chain appends a hash per full block of a prompt, which also covers all blocks before.
func (w *Workload) Chain(r *Request, out []uint64) []uint64 {
	for _, block := range r.full() {
		out = append(out, w.tree.hashes[block])
	}
	return out
}

// EnterByShare draws each request's entry cluster, in proportion to shares. With sessions, a
// session's requests enter together.
func EnterByShare(w *Workload, shares []float64, sessions bool, seed uint64) []int {
	total := 0.0
	for _, s := range shares {
		total += s
	}
	enter := make([]int, len(w.Requests))
	for i := range enter {
		key := uint64(i)
		if sessions {
			key = w.Requests[i].Key
		}
		at := float64(mix(mix(seed)^key)>>11) / (1 << 53) * total
		for ; enter[i] < len(shares)-1 && at >= shares[enter[i]]; enter[i]++ {
			at -= shares[enter[i]]
		}
	}
	return enter
}

// RunClusters plays a scenario until all requests have ended, and returns their outcomes.
func RunClusters(s ClusterSet) []Routed {
	r := newSetRun(s)
	r.arrive(0)
	for r.clock.next() {
	}
	return r.outcomes
}

type setRun struct {
	ClusterSet
	clock    clock
	clusters []*run
	knowing  *knowing // reference; nil if gateways choose
	gateways []Selector
	news     []News
	counted  [][]int // [cluster][gateway] arrived requests
	outcomes []Routed
	declined [][]bool // by request; may be nil
	ended    int
	chain    []uint64
}

func newSetRun(s ClusterSet) *setRun {
	r := &setRun{ClusterSet: s, outcomes: make([]Routed, len(s.Workload.Requests)),
		declined: make([][]bool, len(s.Workload.Requests))}
	picker := s.Picker
	if s.Gateway == nil {
		picker = Strategy{Name: "directed", Immediate: true, Unpaged: true,
			New: func(Pool) Policy { return &directed{} }}
	}
	r.Members = append([]Member(nil), s.Members...)
	for c := range r.Members {
		m := &r.Members[c]
		m.Servers, m.Every, m.Server = or(m.Servers, 8), or(m.Every, 200*time.Millisecond), m.Server.withDefaults()
		cluster := newRun(Scenario{Workload: s.Workload, Strategy: picker, Servers: m.Servers, Server: m.Server,
			Seed: mix(s.Seed) + uint64(c)}, &r.clock)
		cluster.watch, cluster.goes = func(i int, k Kind) { r.learn(c, i, k) }, r.goes
		r.clusters = append(r.clusters, cluster)
		r.counted = append(r.counted, make([]int, len(r.Members)))
	}
	if s.Gateway == nil {
		r.knowing = newKnowing(r)
	}
	for c := range r.Members {
		if s.Gateway == nil {
			break
		}
		r.gateways = append(r.gateways, s.Gateway(c, &r.ClusterSet, rand.New(rand.NewPCG(s.Seed, uint64(1000+c)))))
		r.news = append(r.news, s.News(c, &r.ClusterSet))
		if r.Members[c].Every > 0 {
			r.clock.at(time.Duration(c)*time.Millisecond, func() { r.report(c) })
		}
	}
	if s.DiesAt > 0 {
		r.clock.at(s.DiesAt, r.die)
	}
	return r
}

func (r *setRun) goes() bool { return r.ended < len(r.outcomes) }

func (r *setRun) dead(cluster int) bool {
	return r.DiesAt > 0 && r.clock.now >= r.DiesAt && cluster == r.Dies
}

func (r *setRun) arrive(i int) {
	if i == len(r.outcomes) {
		return
	}
	r.clock.at(r.Workload.Requests[i].At, func() {
		r.choose(i)
		r.arrive(i + 1)
	})
}

func (r *setRun) choose(i int) {
	request, from := &r.Workload.Requests[i], r.Enter[i]
	if r.knowing != nil {
		cluster, server := r.knowing.choose(r.clock.now, i, request)
		r.send(i, cluster, func() {
			r.clusters[cluster].policies[0].(*directed).server = server
			r.place(i, cluster)
		})
		return
	}
	cluster := r.gateways[from].Choose(r.clock.now, i, request, r.declined[i])
	r.send(i, cluster, func() {
		r.counted[cluster][from]++
		r.chain = r.Workload.Chain(request, r.chain[:0])
		r.news[cluster].Add(r.chain)
		r.place(i, cluster)
	})
}

func (r *setRun) send(i, cluster int, take func()) {
	from := r.Enter[i]
	r.clock.at(r.clock.now+r.Delays[from][cluster], func() {
		if !r.dead(cluster) {
			take()
			return
		}
		r.outcomes[i].Declined++
		if r.declined[i] == nil {
			r.declined[i] = make([]bool, len(r.Members))
		}
		r.declined[i][cluster] = true
		r.clock.at(r.clock.now+r.Delays[cluster][from], func() {
			if r.knowing == nil {
				r.gateways[from].Learn(r.clock.now, i, Declined)
			}
			r.choose(i)
		})
	})
}

func (r *setRun) place(i, cluster int) {
	r.outcomes[i].Cluster = cluster
	r.clusters[cluster].choose(i, &r.Workload.Requests[i])
}

func (r *setRun) learn(cluster, i int, k Kind) {
	o := &r.outcomes[i]
	if o.Lost {
		return
	}
	from := r.Enter[i]
	back := r.Delays[cluster][from]
	if r.knowing != nil {
		r.knowing.learn(r.clock.now, i, k)
	}
	if k == FirstByte {
		if o.Seen = r.clock.now + back; r.knowing == nil {
			r.renew(cluster, i)
		}
		return
	}
	r.ended++
	seen := o.Seen
	o.Outcome = r.clusters[cluster].outcomes[i]
	o.Seen = seen
	if r.knowing == nil {
		r.clock.at(r.clock.now+back+r.clusters[from].late(i), func() { r.gateways[from].Learn(r.clock.now, i, Ended) })
	}
}

// renew reports a first byte to the gateway with the access log's next periodic entry.
func (r *setRun) renew(cluster, i int) {
	picked, from := r.clusters[cluster].picks[i].At, r.Enter[i]
	entry := picked + ((r.clock.now-picked)/renewalInterval+1)*renewalInterval
	r.clock.at(entry+r.Delays[cluster][from]+r.clusters[from].late(i), func() {
		if o := &r.outcomes[i]; o.End == 0 && !o.Lost {
			r.gateways[from].Learn(r.clock.now, i, FirstByte)
		}
	})
}

func (r *setRun) report(c int) {
	if r.dead(c) {
		return
	}
	m := &r.Members[c]
	report := Report{Cluster: c, Cached: m.Servers * m.Server.Blocks, Every: m.Every}
	report.Least, report.Servers, report.Rate = r.clusters[c].policies[0].(waiter).Wait(r.clock.now)
	report.Blocks, _ = r.news[c].Take(nil)
	for g := range r.gateways {
		report := report
		report.Counted = r.counted[c][g]
		r.clock.at(r.clock.now+r.Delays[c][g], func() { r.gateways[g].Report(r.clock.now, report) })
	}
	if r.goes() {
		r.clock.at(r.clock.now+m.Every, func() { r.report(c) })
	}
}

func (r *setRun) die() {
	for i, pick := range r.clusters[r.Dies].picks {
		o := &r.outcomes[i]
		if pick == nil || o.End != 0 {
			continue
		}
		o.Lost = true
		r.ended++
		from := r.Enter[i]
		if r.knowing != nil {
			continue
		}
		r.clock.at(r.clock.now+r.Delays[r.Dies][from], func() { r.gateways[from].Learn(r.clock.now, i, Ended) })
	}
	if r.knowing != nil {
		r.knowing.dead = r.Dies
	}
}
