package picker

import (
	"bytes"
	"cmp"
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

// Chooser chooses among the clusters of imports; safe for concurrent use.
type Chooser interface {
	SetClusters(pool objectid.Target, c *Clusters)
	// Choose appends the ranked clusters of an import to out, best first. If charged is set, the
	// load of the first cluster includes the request until Charge.End.
	Choose(pool objectid.Target, p ClusterPrompt, charged bool, out []ClusterCost) (ranked []ClusterCost, charge Charge)
	// Sender returns this process's name. Other clusters' pickers get this name in SenderHeader.
	Sender() string
}

// Charge is a request that counts in the load of its pick's first cluster.
type Charge interface {
	FirstByte(after time.Duration)
	// Declined means that the first cluster does not serve the request.
	Declined()
	End()
}

// ClusterPrompt describes a request. Chain is valid only during Chooser.Choose.
type ClusterPrompt struct {
	Tokens int
	Chain  prefix.Chain
	// Stay is the cluster of the request's session, or "".
	Stay string
	// GRPC marks a gRPC request. Clusters with NoGRPC do not accept these.
	GRPC bool
}

// ClusterCost is a request's cost at a cluster, in seconds: Wait + 3 * (time to read the uncached
// prompt) + RoundTrip + Margin (0 for this cluster). If Clusters.Latency is set, Wait is the time
// to the first byte of the cluster's responses minus the round trip, and prompts do not count.
type ClusterCost struct {
	Cluster   string  `json:"cluster"`
	Hop       string  `json:"-"`
	Cost      float64 `json:"cost"`
	Wait      float64 `json:"wait"`
	Prompt    float64 `json:"prompt"`
	RoundTrip float64 `json:"roundTrip"`
	Margin    float64 `json:"margin"`
	// Basis is the source of the wait: a report, this process's requests, responses, or a trial.
	Basis  string `json:"basis"`
	Barred string `json:"barred,omitempty"` // why the cluster comes last
	// Session means that the request's session is at the cluster. This cluster comes first if it is
	// not barred.
	Session bool `json:"session,omitempty"`
	Cached  int  `json:"cached,omitempty"` // tokens of the prompt that the cluster has received before
}

// SenderHeader is the request header with the name (Chooser.Sender) of the picker process that
// chose this cluster from another cluster.
const SenderHeader = "penstock-peer-sender"

// Gateways remove these headers from clients' requests and from requests to model servers.
const (
	// OthersHeader is the number of clusters and spill targets that the route can still try.
	OthersHeader = "penstock-peer-others"
	// AttemptHeader has the number of the attempt, from 1.
	AttemptHeader = "penstock-peer-attempt"
)

// ClusterHeader is the request header with the "envoy://hops/NAME" of the session's cluster.
const ClusterHeader = "penstock-peer-cluster"

const resultCluster = "cluster" // the pick lists clusters of an import, as hops

const (
	leastLoad = "LeastLoad"
	latency   = "Latency"
)

func (pool *pool) strategyName() string {
	switch {
	case pool.Clusters == nil:
		return pool.strategy.Name()
	case pool.Clusters.Latency:
		return latency
	}
	return leastLoad
}

func (pool *pool) choiceName() string {
	if pool.Clusters != nil {
		return ""
	}
	return pool.strategy.Choice()
}

func (p *Picker) setClusters(before, now *pool) {
	switch {
	case now != nil && now.Clusters != nil:
		p.config.Chooser.SetClusters(now.ID, now.Clusters)
	case before != nil && before.Clusters != nil:
		p.config.Chooser.SetClusters(before.ID, nil)
	}
}

type clusters struct{}

func (clusters) restrict(*pick) {}

func (clusters) rank(k *pick) { k.rankClusters(k.routeCluster()) }

func (k *pick) routeCluster() string {
	return k.pool.Clusters.behind(string(k.request.Headers.Header(ClusterHeader)))
}

func (c *Clusters) behind(hop string) string {
	if i := slices.IndexFunc(c.List, func(c Cluster) bool { return c.Hop == hop }); i >= 0 && hop != "" {
		return c.List[i].Name
	}
	return ""
}

func (k *pick) rankClusters(stay string) {
	pool, r := k.pool, k.request
	stay = cmp.Or(pool.Clusters.behind(k.keeper), stay)
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
		c := &ranked[i]
		k.choices[i] = choice{text: c.Cluster, value: c.Cost, by: schedule.ByCost, cached: int32(c.Cached),
			wait: float32(c.Wait), prompt: float32(c.Prompt), roundTrip: float32(c.RoundTrip),
			margin: float32(c.Margin), basis: c.Basis, barred: c.Barred, session: c.Session}
		k.compared++
	}
}

// isGRPC returns false for gRPC-Web, as Envoy does.
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
	// -1 keeps the route's number of retries: one for each hop.
	k.answer = extproc.Answer{Endpoints: texts[:min(len(texts), maxEndpoints)], MaxRetries: -1}
	k.answer.Headers = []extproc.Header{{Name: SenderHeader, Value: k.picker.config.Chooser.Sender()}}
	if k.follows == followsKept { // only the first cluster has the stored response
		k.answer.Endpoints, k.answer.MaxRetries = k.answer.Endpoints[:1], 0
		k.answer.Headers = append(k.answer.Headers, extproc.Header{Name: OthersHeader, Value: "0"})
	}
	if k.lease != nil {
		k.counted(&k.answer)
		k.answer.Keeps = k.keeps()
		k.answer.Track = &chosen{lease: k.lease, pool: k.pool}
	}
}

type charged struct {
	Charge
	hop   string
	once  sync.Once
	moved func(served string) // called when another hop serves; nil if the request has no session
}

// Follow reads an access log entry of the request. If another hop serves the request, the first
// cluster declined it: Envoy retries elsewhere only before a model server begins a request.
func (c *charged) Follow(e accesslog.Entry) {
	switch {
	case e.Served != "" && e.Served != c.hop:
		if c.moved != nil {
			// Only the first entry moves the session: a later request may have moved it again.
			c.once.Do(func() { c.moved(e.Served) })
		}
		c.Declined()
	case e.Body && e.Status < 400:
		c.FirstByte(e.Begun())
	}
}

type chosen struct {
	lease *endpoint.Lease
	pool  *pool
}

// Response returns the header with the session's token, if the import has session affinity. The
// token names the serving cluster.
func (c *chosen) Response(r extproc.Response) extproc.Header {
	if c.pool.stays == nil || r.Status >= 500 {
		return extproc.Header{}
	}
	return c.pool.stayToken(r.Served, r.Token, time.Now())
}

// Begun does nothing: the access log reports the first byte.
func (*chosen) Begun() {}

func (c *chosen) End() { c.lease.Done() }

func anotherTakes(r *extproc.Request) bool {
	attempt := max(1, extproc.Number(r.Headers.Header(AttemptHeader)))
	return attempt <= extproc.Number(r.Headers.Header(OthersHeader))
}

// Waiting returns how long another cluster's request would wait at a pool, and how many blocks of
// prompts the pool's servers cache. ok is true only for model servers under the strategy "load".
func (p *Picker) Waiting(id objectid.Pool) (w schedule.Wait, capacity int, ok bool) {
	pool := p.pools.now.Load().byName[id.String()]
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
