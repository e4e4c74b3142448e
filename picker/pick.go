package picker

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/penstock-project/penstock/manifests/endpointpicker"
	"github.com/penstock-project/penstock/picker/endpoint"
	"github.com/penstock-project/penstock/picker/extproc"
	"github.com/penstock-project/penstock/picker/flow"
	"github.com/penstock-project/penstock/picker/prefix"
	"github.com/penstock-project/penstock/picker/request"
	"github.com/penstock-project/penstock/picker/schedule"
)

// Reasons of immediate responses, for x-penstock-reason, metrics and traces.
const (
	ReasonUnknownPool = "unknown_pool"       // 503: the gateway named no pool, and there is no default
	ReasonNoEndpoints = "no_endpoints"       // 503: the pool has no endpoint that takes requests
	ReasonSubset      = "subset_empty"       // 503: no endpoint in the subset hint is eligible
	ReasonFull        = "pool_full"          // 429: every endpoint is full
	ReasonShed        = "shed"               // 429: no endpoint has capacity for a sheddable request, or serves it in time
	ReasonQueue       = "queue_full"         // 429: the pool is saturated, and as many requests wait as may
	ReasonTTL         = "queue_ttl"          // 429: the pool was saturated as long as a request may wait
	ReasonCanceled    = "client_left"        // the client has left while its request waited; no one reads the answer
	ReasonRelay       = "relay_failed"       // 503: the remote picker did not answer, or Envoy did not learn its endpoint
	ReasonOutOfRange  = "relay_out_of_range" // 503: the remote picker named only addresses outside the declared ranges
)

// Results of picks, for metrics and traces; the others are the reasons.
const (
	resultPicked  = "picked"
	resultSpilled = "spilled" // no pod can take the request; the pick names the spill targets alone
	resultRelayed = "relayed"
	resultOpen    = "relay_open"      // the remote picker named no endpoint, and the pool fails open: the pick names some that are known
	resultPassed  = "relay_immediate" // a remote picker's 429 or 503, passed through
)

// maxEndpoints bounds a pick's list, so that a large number of retries does not make a large header.
const maxEndpoints = 16

var _ extproc.Picker = (*Picker)(nil)

// Body implements extproc.Picker.
func (p *Picker) Body(name string) extproc.BodyPolicy {
	pool := p.pool(name)
	if pool == nil {
		return extproc.BodyPolicy{}
	}
	if pool.Relay != nil && !pool.Relay.Listed && p.learner != nil && p.learner.Isolated() {
		return extproc.BodyPolicy{Unavailable: true}
	}
	policy := extproc.BodyPolicy{
		UserMessages: pool.UserMessages,
		Limit:        pool.BodyLimit, Wait: pool.Pool.Body == BodyBuffered || pool.Relay != nil, Prompts: pool.Pool.Body == BodyPrompts, Whole: pool.Relay != nil, Keep: pool.KVEvents != nil && pool.KVEvents.Render > 0,
	}
	if pool.Strategy == schedule.Plugins && pool.Relay == nil && needsPrompts(pool.Plugins) {
		policy.Valid, policy.Keep = true, true
	}
	policy.Process = pool.processor != nil
	policy.TrustHeaders = pool.TrustHeaders
	policy.OwnWorkers = pool.dynamo() != nil && pool.Relay == nil
	if pool.rules != nil && pool.rules.rewrites && pool.Relay == nil {
		policy.Target = pool.rules.draw
	}
	switch {
	case p.protocol.Duplex:
		policy.Assume = extproc.ModeFullDuplexStreamed
	case pool.Pool.Body != BodyNone:
		policy.Assume = extproc.ModeBuffered
	}
	return policy
}

// needsPrompts reports whether a profile has nothing but the prompt to go by: all of its scorers compare what servers have cached of it. Every
// other strategy but chwbl has something to go by without a body.
func needsPrompts(profile *endpointpicker.Profile) bool {
	return profile != nil && len(profile.Scorers) > 0 && !slices.ContainsFunc(profile.Scorers, func(in endpointpicker.Instance) bool {
		return in.Type != endpointpicker.PrefixCacheScorer
	})
}

// begin returns the time at which a pick begins: once the process is not behind.
func (p *Picker) begin(ctx context.Context) time.Time {
	now := time.Now()
	if p.behind == nil {
		return now
	}
	wait := p.behind(now)
	if wait <= 0 {
		return now
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	return time.Now()
}

// Pick implements extproc.Picker.
func (p *Picker) Pick(ctx context.Context, r *extproc.Request) extproc.Answer {
	started := p.begin(ctx)
	pool := p.pool(r.Pool)
	if pool == nil && listsAlone(r) {
		if a, ok := p.listModels(ctx, nil, r, started); ok {
			return a
		}
		return extproc.Answer{Pass: true}
	}
	if pool == nil {
		p.metrics.unknown.Inc()
		if r.Pool != "" {
			// Gateways and pickers learn of pools at different times; another picker may have this one.
			return extproc.Answer{Unavailable: true, Message: "this picker has no pool " + r.Pool}
		}
		return immediate(503, ReasonUnknownPool, "this picker has no default pool, and the gateway named none")
	}
	if a, ok := p.listModels(ctx, pool, r, started); ok {
		return a
	}
	if pool.Gateways {
		if !asksForModels(r.Headers) {
			// Envoy has newer configuration than this picker: the pool has a picker now. The picker of the process that configured Envoy knows it.
			return extproc.Answer{Unavailable: true, Message: "this picker does not pick for pool " + r.Pool + ", whose requests go to gateways of another cluster"}
		}
		return extproc.Answer{Pass: true}
	}
	span := p.span(ctx, r, started)
	var a extproc.Answer
	d := decision{span: span}
	answered := false
	defer func() {
		if d.admitted != nil { // it has a lease now, or is not sent
			d.admitted.Placed()
		}
		if !answered && d.lease != nil { // it panics: no other code ends the lease
			d.lease.Release()
			d.lease.Done()
		}
	}()
	switch {
	case pool.Clusters != nil:
		a = p.chooseCluster(pool, r, &d)
	case pool.Relay != nil:
		a, d = p.relay(ctx, pool, r)
		d.model, d.tokens = r.Facts.Model, r.Facts.Tokens
	default:
		held := false
		if pool.queue.On() {
			if pool, a, held = p.hold(ctx, pool, r, &d); d.waited > 0 {
				started = time.Now()
			}
		}
		if !held {
			if pool, a, held = p.process(ctx, pool, r, &d); d.processed.outcome != "" {
				started = time.Now() // the time of a pick is what the picker itself takes
			}
		}
		if !held {
			a = p.choose(ctx, pool, r, &d, started)
		}
	}
	forGateway(r, &a)
	pool.counters.count(d.result, time.Since(started))
	if span != nil {
		endSpan(span, pool, r, &a, &d)
	}
	if number := p.notes.add(pool, r, &a, &d, started); d.lease != nil {
		tag := endpoint.Tag{Number: number, Model: d.model, Tokens: d.tokens}
		if d.charge != nil {
			tag.Charge = d.charge
		}
		if d.unread != nil {
			tag.Unread = d.unread
		}
		if d.compared > 0 {
			tag.Cached = int(d.choices[0].cached)
		}
		if l := p.line(pool, r, &d, started); l != nil {
			tag.Of = l
		}
		d.lease.SetTag(tag)
	}
	p.upstream.picked(pool, r, &a, &d, started)
	if d.sampled || pool.history.due(started, len(pool.snapshot.Endpoints)) {
		pool.history.add(pool.record(r, &a, &d, started))
	}
	answered = true
	return a
}

// decision is what a pick's metrics, spans and records show beyond its answer.
type decision struct {
	result     string
	model      string
	tokens     int // of the prompt
	candidates int
	compared   int // choices
	choices    [maxChoices]choice
	allowed    func(*endpoint.Endpoint) bool
	sampled    bool               // the pick gets verdicts
	exceeded   []schedule.Excess  // why the answer is 429
	verdicts   []schedule.Verdict // at the moment of the choice; nil if there was none
	outOfRange []string           // of a relay: addresses outside the declared ranges
	problem    string             // of a relay: why the remote picker did not answer
	lease      *endpoint.Lease    // nil if none was opened
	waited     time.Duration      // for flow control
	admitted   *flow.Queue        // by it; nil if there was none
	external   [][]float64        // scores of scorers in other processes
	further    further            // servers
	staged     bool               // the pool's profile handler has decided about them
	processed  processed          // by the pool's processor
	span       trace.Span         // of the pick; nil without
	charge     *charged           // of a pick that names clusters; nil for others
	unread     *unread            // nil without a lease or a prompt
	session    sessionBy
}

// reportDelay is how long a pick of a full pool waits for the report that a request has ended: Envoy sends its access log
// every 100 ms (translator/envoy, feedbackInterval), and a peer that receives it publishes it 20 ms later.
const reportDelay = 250 * time.Millisecond

// choose picks among the pool's own endpoints, and opens a lease for the first. If the pool is full and the request can't be
// spilled, and no other cluster takes it, it waits for a report that may be on its way.
func (p *Picker) choose(ctx context.Context, pool *pool, r *extproc.Request, d *decision, started time.Time) extproc.Answer {
	pool.snapshot.MarkUsed()
	d.sampled = pool.history.due(started, len(pool.snapshot.Endpoints))
	entries, restricted := p.protocol.subset(r.Headers)
	if restricted {
		d.allowed = subset(entries)
	}
	spill := pool.spill(r.Spill)
	if restricted {
		spill = nil // the subset hint bounds the pick, and no hop is in it
	}
	if r.Subset != "" {
		d.allowed, restricted = pool.selected(r.Subset, d.allowed), true
	}
	w := workings.Get().(*working)
	c := &w.candidates
	defer func() {
		*c = candidates{}
		workings.Put(w)
	}()
	*c = candidates{picker: p, pool: pool, holder: endpoint.Holder{Gateway: r.Gateway, Pool: pool.Name}, request: pool.scheduled(r, started), allowed: d.allowed, scratch: &w.memory,
		stage: &w.stage, media: r.Facts.Media, sampled: d.sampled}
	d.useTokens(pool, r, &c.request)
	ids := p.renderPrompt(ctx, pool, r, &c.request)
	p.scoreOutside(ctx, pool, &c.request, c.allowed, c.scratch)
	d.external = c.request.External
	shadow := c.foreshadow()
	if worker := d.processed.worker; worker == nil {
		c.open(ctx, pool.strategy)
	} else if !c.openWorker(ctx, worker) {
		p.fallBack(pool, d, busyWorker)
		c.open(ctx, pool.strategy)
	}
	switch {
	case len(c.ranked) > 0 || len(spill) > 0 || c.scratch.Eligible == 0, c.scratch.Shed:
	case pool.unlimited != nil && r.Reported() && !r.Last:
		c.open(ctx, pool.unlimited)
	case pool.slots != nil && len(r.Headers.Header(OthersHeader)) == 0:
		pool.slots.Wait(ctx, p.reportDelay, func() bool { return c.open(ctx, pool.strategy) })
	}
	d.lease, d.verdicts = c.lease, c.verdicts
	if len(c.ranked) > 0 {
		d.session = pool.keptSession(c.request.Session, c.ranked[0].Endpoint.Addr)
	}
	c.judge(shadow, p.metrics)
	fault(r)
	d.model, d.tokens = r.Facts.Model, c.request.Tokens
	if name := r.Headers.Header(modelHeader); d.model == "" && len(name) > 0 && (r.Reported() || pool.TrustHeaders) {
		d.model = string(name) // of a gateway that sets it itself
	}
	d.compare(len(c.ranked), c.scratch.Candidates(), pool.strategy.Measure())
	track := newTracker()
	a, result := pool.compose(c.ranked, spill, c.scratch, restricted, retries(r), track.texts[:0])
	if d.result = result; len(c.ranked) == 0 && (a.Status == 429 || d.sampled) {
		d.exceeded = c.exceeded()
	}
	pool.nameFurther(&a, c, d, spill, retries(r))
	if pool.dynamo() != nil {
		a.TokenData = ids
	}
	d.addProcessed(pool, &a)
	if c.lease == nil {
		return a
	}
	p.sent(c, r)
	d.unread = c.unread
	if pool.sessions != nil {
		p.keepSession(pool, c.request.Session.ID, c.ranked[0].Endpoint.Addr, c.at)
	}
	if !r.Reported() {
		c.lease.KeepUntilEnd()
		c.lease.Waits() // the stream reports the first byte at once
	}
	a.Pool, a.Lease = pool.Name, extproc.Lease{Owner: p.leases.Owner(), Number: c.lease.Number()}
	track.picker, track.lease, track.untilEnd = p, c.lease, !r.Reported()
	track.session, track.pool = c.request.Session.ID, pool
	if track.imported = r.Imported; track.imported {
		p.imported.Add(1)
	}
	a.Track = track
	if p.protocol.Conformance {
		a.Track = servedReport{track}
	}
	return a
}

// scheduled is what a request's pick is decided by.
func (pool *pool) scheduled(r *extproc.Request, now time.Time) schedule.Request {
	q := schedule.Request{Model: servedModel(&r.Facts), Stream: r.Facts.Stream, Tokens: promptTokens(r), Chain: r.Facts.Chain, Exact: r.Facts.Exact, Criticality: criticality(pool.priority(r)), Spread: r.Facts.Spread,
		MaxTokens: r.Facts.MaxTokens, Objective: pool.objective(r.Headers.Header),
		Session: pool.session(r.Headers.Header, now)}
	if q.Model == "" { // the body is not read
		q.Model = string(r.Headers.Header(modelHeader))
	}
	return q
}

// promptTokens is how long a request's prompt is, as far as that is known.
func promptTokens(r *extproc.Request) int {
	if r.Bodyless {
		return 1 // there is none
	}
	if r.Facts.Size == 0 { // the body is not read: most of it is the prompt
		return min(length(r.Headers.Header("content-length"))/prefix.BytesPerToken, prefix.MaxTokens)
	}
	return r.Facts.Tokens
}

// servedModel is the model that the server gets.
func servedModel(f *request.Facts) string {
	if f.Target != nil {
		return f.Target.Name
	}
	return f.Model
}

// length reads a content-length of at most 9 digits; 0 for any other text.
func length(text []byte) (n int) {
	if len(text) > 9 {
		return 0
	}
	for _, c := range text {
		if c < '0' || c > '9' {
			return 0
		}
		n = 10*n + int(c-'0')
	}
	return n
}

// modelHeader has the model of a request on Gateways that route by it (scan.lua in translator/envoy). On others a client may
// set it, which decides between endpoints of the pool only.
const modelHeader = "x-gateway-model-name"

// spill returns the spill targets of a request that Envoys have.
func (pool *pool) spill(asked []string) []string {
	unknown := func(target string) bool { return !slices.Contains(pool.Spill, target) }
	if !slices.ContainsFunc(asked, unknown) {
		return asked // the usual case, without a copy
	}
	return slices.DeleteFunc(slices.Clone(asked), unknown)
}

// compose turns the ranked endpoints of a Rank into an answer.
//
// Spill targets follow the pods in every pick. If every pod is full, or there is none, they are the whole pick, whatever the
// pool's failure mode: a cluster that falls back to its spill endpoints anyway gets them one message earlier.
//
// The answer's list is in memory if that is large enough.
func (pool *pool) compose(ranked []schedule.Candidate, spill []string, by *schedule.Scratch, restricted bool, retries int, memory []string) (extproc.Answer, string) {
	if len(ranked) == 0 && len(spill) == 0 {
		switch {
		case by.Shed:
			return immediate(429, ReasonShed, "no model server of pool "+quoted(pool.Name)+" "+by.Why), ReasonShed
		case by.Eligible > 0:
			return immediate(429, ReasonFull, "every model server of pool "+quoted(pool.Name)+" is full"), ReasonFull
		case restricted:
			return immediate(503, ReasonSubset, "no model server of pool "+quoted(pool.Name)+" is among those that the gateway allows"), ReasonSubset
		}
		return immediate(503, ReasonNoEndpoints, "pool "+quoted(pool.Name)+" has no model server that takes requests"), ReasonNoEndpoints
	}
	if len(ranked) == 0 {
		return listed(slices.Clip(spill), retries), resultSpilled
	}
	for i := range ranked {
		memory = append(memory, ranked[i].Endpoint.Text)
	}
	return listed(append(memory, spill...), retries), resultPicked
}

// forGateway leaves of an answer what a gateway that Penstock does not configure can read. It has a retry policy of its own.
func forGateway(r *extproc.Request, a *extproc.Answer) {
	if r.One && len(a.Endpoints) > 1 {
		a.Endpoints, a.MaxRetries = a.Endpoints[:1], 0
	}
	if !r.Reported() && a.MaxRetries == 0 {
		a.MaxRetries = -1
	}
}

// listed answers with a list of endpoints and with one retry for each further endpoint, or the user's retries if they are
// more. In that case the list repeats until it is long enough: a retry beyond its end would use the cluster's fallback,
// which a FailClose pool lacks.
func listed(texts []string, retries int) extproc.Answer {
	a := extproc.Answer{MaxRetries: max(len(texts)-1, retries)}
	for n := len(texts); len(texts) < min(1+retries, maxEndpoints); {
		texts = append(texts, texts[len(texts)%n])
	}
	a.Endpoints = texts
	return a
}

// retries returns the user's number of retries: the route's policy, or the header of a sender that the gateway trusts. A gateway that
// Penstock does not configure may read no list (Envoy's ORIGINAL_DST clusters), so none repeats there.
func retries(r *extproc.Request) int {
	if !r.Reported() {
		return 0
	}
	return max(r.Retries, extproc.Number(r.Headers.Header("x-envoy-max-retries")))
}

// subset returns a filter for a subset hint: "ip:port" allows this endpoint, "ip" allows any port.
func subset(entries []string) func(*endpoint.Endpoint) bool {
	addrs := map[netip.AddrPort]bool{}
	hosts := map[netip.Addr]bool{}
	for _, text := range entries {
		if addr, err := netip.ParseAddrPort(text); err == nil {
			addrs[addr] = true
		} else if host, err := netip.ParseAddr(strings.Trim(text, "[]")); err == nil {
			hosts[host] = true
		}
	}
	return func(e *endpoint.Endpoint) bool { return addrs[e.Addr] || hosts[e.Addr.Addr()] }
}

func immediate(status int, reason, message string) extproc.Answer {
	a := extproc.Answer{Status: status, Reason: reason, Message: message, MaxRetries: -1, Dropped: dropped[reason]}
	if status == 429 {
		a.RetryAfter = time.Second
	}
	return a
}

// dropped are the values of x-llm-d-request-dropped-reason, as llm-d's router has them.
var dropped = map[string]string{
	ReasonNoEndpoints: "rejected-no-endpoints",
	ReasonSubset:      "rejected-no-endpoints",
	ReasonFull:        "rejected-saturated",
	ReasonShed:        "rejected-saturated",
	ReasonQueue:       "rejected-saturated",
	ReasonTTL:         "rejected-ttl-expired",
	ReasonCanceled:    "rejected-context-cancelled",
}

func quoted(name string) string {
	if name == "" {
		return "(none named)"
	}
	return name
}
