package picker

import (
	"bytes"
	"slices"
	"sync"
	"time"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/picker/accesslog"
	"github.com/penstock-project/penstock/picker/endpoint"
	"github.com/penstock-project/penstock/picker/extproc"
	"github.com/penstock-project/penstock/picker/prefix"
	"github.com/penstock-project/penstock/picker/schedule"
)

// Chooser chooses among the clusters of imports, by what they cost. Its methods are called
// concurrently.
type Chooser interface {
	// SetClusters replaces the clusters of a pool; nil: it is removed.
	SetClusters(pool objectid.Target, c *Clusters)
	// Choose ranks the clusters of a pool, the best first, appended to out. With charged the
	// request is charged to the first one, until the Charge ends, which is nil if there is no
	// cluster.
	Choose(pool objectid.Target, p ClusterPrompt, charged bool, out []ClusterCost) (ranked []ClusterCost, charge Charge)
	// Sender names this process to the pickers of the clusters, which count the requests of each.
	Sender() string
}

// Charge is a request that is charged to the first of the clusters of its pick, until End.
type Charge interface {
	// FirstByte of the response's body arrived so long after the request was sent; 0: that is
	// unknown.
	FirstByte(after time.Duration)
	// Declined: another cluster serves, or none.
	Declined()
	End()
}

// ClusterPrompt is what is known of a request. Chain is valid during the call.
type ClusterPrompt struct {
	Tokens int
	Chain  prefix.Chain
	// Stay is the cluster of the request's session; "": it has none.
	Stay string
	// GRPC: the request is one of gRPC, which some clusters don't take (Cluster.NoGRPC).
	GRPC bool
}

// ClusterCost is what a request costs at a cluster, in seconds: the wait there, and to read what is
// not cached of its prompt, three times; the round trip; and the margin by which another cluster
// must be cheaper than the own one. With Clusters.Latency the wait is until the first byte of the
// cluster's answers, less the round trip, and nothing is known of prompts.
type ClusterCost struct {
	Cluster   string  `json:"cluster"`
	Hop       string  `json:"-"`
	Cost      float64 `json:"cost"`
	Wait      float64 `json:"wait"`
	Prompt    float64 `json:"prompt"`
	RoundTrip float64 `json:"roundTrip"`
	Margin    float64 `json:"margin"`
	// by what the wait is known: a report, own requests, answers, or a trial
	Basis  string `json:"basis"`
	Barred string `json:"barred,omitempty"` // why it comes last; "" if it does not
	// the request's session is there, so it comes first unless it is barred
	Session bool `json:"session,omitempty"`
	Cached  int  `json:"cached,omitempty"` // tokens of the prompt that were sent there before
}

// SenderHeader has the Sender of the process that chose this cluster for a request. Gateways remove
// it from what clients send, and before model servers.
const SenderHeader = "penstock-peer-sender"

// Headers of a request to one of several clusters of an import. Gateways remove them from what
// clients send, and before model servers.
const (
	// OthersHeader is how many further clusters and spill targets the request's route asks, one
	// after the other, once the first one has declined.
	OthersHeader = "penstock-peer-others"
	// AttemptHeader is which of them this is: 1 is the first. Without it, it is the first.
	AttemptHeader = "penstock-peer-attempt"
)

// ClusterHeader has the hop to the cluster of the import that the request's session is in
// (sessionPersistence of its route). Gateways remove it from what clients send, and before the
// cluster.
const ClusterHeader = "penstock-peer-cluster"

const resultCluster = "cluster" // the pick names clusters of an import, each by its hop

// The strategies of pools with Clusters.
const (
	leastLoad = "LeastLoad"
	latency   = "Latency"
)

// strategyName is by what the pool's picks are made.
func (pool *pool) strategyName() string {
	switch {
	case pool.Clusters == nil:
		return pool.strategy.Name()
	case pool.Clusters.Latency:
		return latency
	}
	return leastLoad
}

// choiceName returns how the pool's strategy chooses by scores, as Record.Choice has it.
func (pool *pool) choiceName() string {
	if pool.Clusters != nil {
		return ""
	}
	return pool.strategy.Choice()
}

// setClusters passes the clusters of a pool on.
func (p *Picker) setClusters(was, now *pool) {
	switch {
	case now != nil && now.Clusters != nil:
		p.config.Chooser.SetClusters(now.ID, now.Clusters)
	case was != nil && was.Clusters != nil:
		p.config.Chooser.SetClusters(was.ID, nil)
	}
}

// clusters are the exporting clusters of an import.
type clusters struct{}

func (clusters) restrict(*pick) {}

// rank chooses by what the request costs at each cluster. All of them are named: one that declines
// a request is followed by the next one.
func (clusters) rank(k *pick) { k.rankClusters(k.routeCluster()) }

// routeCluster is the cluster that the session of the request's route is in; "" without.
func (k *pick) routeCluster() string {
	hop, list := k.request.Headers.Header(ClusterHeader), k.pool.Clusters.List
	if len(hop) == 0 {
		return ""
	}
	if i := slices.IndexFunc(list, func(c Cluster) bool { return c.Hop == string(hop) }); i >= 0 {
		return list[i].Name
	}
	return ""
}

func (k *pick) rankClusters(stay string) {
	pool, r := k.pool, k.request
	if at := k.keeperCluster(); at != "" {
		stay = at
	}
	k.model, k.tokens = r.Facts.Model, promptTokens(r)
	asks := ClusterPrompt{Tokens: k.tokens, Chain: r.Facts.Chain, Stay: stay}
	asks.GRPC = isGRPC(r.Headers.Header("content-type"))
	if pool.Clusters.Blind {
		asks.Chain = nil
	}
	ranked, charge := k.picker.config.Chooser.Choose(pool.ID, asks, true, make([]ClusterCost, 0, maxEndpoints))
	if len(ranked) == 0 {
		k.model, k.tokens = "", 0
		k.decide(immediate(503, ReasonNoEndpoints, "import "+quoted(pool.Name)+" has no cluster that takes requests"),
			ReasonNoEndpoints)
		return
	}
	k.clusters, k.result, k.candidates = ranked, resultCluster, len(ranked)
	if k.keeper != "" {
		if k.follows = followsLost; ranked[0].Hop == k.keeper {
			k.follows = followsKept
		}
	}
	if charge != nil {
		k.charge = &charged{Charge: charge, hop: ranked[0].Hop}
	}
	for i := range ranked[:min(len(ranked), maxChoices)] {
		of := &ranked[i]
		k.choices[i] = choice{text: of.Cluster, value: of.Cost, by: schedule.ByCost, cached: int32(of.Cached),
			wait: float32(of.Wait), prompt: float32(of.Prompt), roundTrip: float32(of.RoundTrip),
			margin: float32(of.Margin), basis: of.Basis, barred: of.Barred, session: of.Session}
		k.compared++
	}
}

// isGRPC reports whether a content type is one of gRPC, as Envoy does: gRPC-Web is another
// protocol.
func isGRPC(contentType []byte) bool {
	after, ok := bytes.CutPrefix(bytes.ToLower(contentType), []byte("application/grpc"))
	return ok && (len(after) == 0 || after[0] == '+' || after[0] == ';')
}

func (clusters) lease(k *pick) {
	switch p, gateway := k.picker, k.request.Gateway; {
	case k.charge == nil:
	case p.leases.Bounded(gateway):
		k.charge.End()
		k.charge = nil
	default:
		k.lease = p.leases.OpenAt(p.others.nowhere, endpoint.Holder{Gateway: gateway, Pool: k.pool.Name}, k.charge.End,
			time.Now())
	}
}

func (clusters) spill(*pick) {}

func (clusters) answer(k *pick) {
	further := k.pool.Clusters.Further
	texts := make([]string, 0, len(k.clusters)+len(further))
	for i := range k.clusters {
		texts = append(texts, k.clusters[i].Hop)
	}
	texts = append(texts, further...)
	// the route has as many retries as there are hops
	k.answer = extproc.Answer{Endpoints: texts[:min(len(texts), maxEndpoints)], MaxRetries: -1}
	k.answer.Headers = []extproc.Header{{Name: SenderHeader, Value: k.picker.config.Chooser.Sender()}}
	if k.follows == followsKept { // the other clusters lack the response
		k.answer.Endpoints, k.answer.MaxRetries = k.answer.Endpoints[:1], 0
		k.answer.Headers = append(k.answer.Headers, extproc.Header{Name: OthersHeader, Value: "0"})
	}
	if k.lease != nil {
		k.counted(&k.answer)
		k.answer.Keeps = k.keeps()
		k.answer.Track = &chosen{lease: k.lease, pool: k.pool}
	}
}

// charged is the charge of a pick that named a hop first.
type charged struct {
	Charge
	hop   string
	once  sync.Once
	moved func(served string) // runs once another hop has served; nil: the request has no session
}

// Follow implements endpoint.Charge. It passes on what the access log shows of the request. An
// import's hops never move a request that a model server has begun, so a request that another hop
// serves was declined.
func (c *charged) Follow(e accesslog.Entry) {
	switch {
	case e.Served != "" && e.Served != c.hop:
		if c.moved != nil {
			c.once.Do(func() { c.moved(e.Served) }) // by a later entry the session may have moved on
		}
		c.Declined()
	case e.Body && e.Status < 400:
		c.FirstByte(e.Begun())
	}
}

// chosen ends the use of a lease with the call. The lease lives until the access log reports the
// request's end.
type chosen struct {
	lease *endpoint.Lease
	pool  *pool
}

// Response implements extproc.Tracker. With affinity for sessions it names the cluster that served
// in the session's token.
func (c *chosen) Response(r extproc.Response) extproc.Header {
	if c.pool.stays == nil || r.Status >= 500 {
		return extproc.Header{}
	}
	return c.pool.stayToken(r.Served, r.Token, time.Now())
}

// Begun implements extproc.Tracker. The access log reports the first byte.
func (*chosen) Begun() {}

// End implements extproc.Tracker.
func (c *chosen) End() { c.lease.Done() }

// anotherTakes reports whether another cluster, or a spill target, takes a request that is declined
// here.
func anotherTakes(r *extproc.Request) bool {
	attempt := max(1, extproc.Number(r.Headers.Header(AttemptHeader)))
	return attempt <= extproc.Number(r.Headers.Header(OthersHeader))
}

// Waiting is what a request of another cluster finds at a pool, and how many blocks of prompts its
// servers cache. With flow control the wait in the pool's queue is part of it. ok is false for a
// pool that this picker does not pick from by the strategy "load".
func (p *Picker) Waiting(of objectid.Pool) (w schedule.Wait, capacity int, ok bool) {
	pool := p.pools.now.Load().byName[of.String()]
	if pool == nil || pool.Relay != nil || pool.Gateways || pool.Clusters != nil {
		return w, 0, false
	}
	now := time.Now()
	w, ok = pool.strategy.Wait(now, pool.snapshot.Endpoints)
	if pool.queue.On() {
		w.Behind(pool.queued(now))
	}
	for i := range pool.snapshot.Endpoints {
		capacity += pool.snapshot.Endpoints[i].Load().Prefixes().Blocks()
	}
	return w, capacity, ok
}
