package picker

import (
	"cmp"
	"context"
	"log/slog"
	"net/netip"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/penstock-project/penstock/manifests/endpointpicker"
	"github.com/penstock-project/penstock/picker/dial"
	"github.com/penstock-project/penstock/picker/endpoint"
	"github.com/penstock-project/penstock/picker/extproc"
	"github.com/penstock-project/penstock/picker/prefix"
	"github.com/penstock-project/penstock/picker/processor"
	"github.com/penstock-project/penstock/picker/schedule"
)

// Processor is a service that prepares the requests of a pool before they are picked for (package processor).
type Processor struct {
	Host      string         // that its requests name
	Path      string         // "": processor.Path
	Addresses []dial.Address // asked in turn; none: it never answers
	TLS       dial.TLS       // for those that are not Cleartext
	Timeout   time.Duration  // 0: processor.DefaultTimeout
	// Headers of requests that it receives, in lower case, beside x-request-id.
	Headers []string
	// Route has it choose the endpoints of requests whose body does not decide about that.
	Route bool
}

// extendAbove is the longest wait for a processor that Envoy's own timeout for a pick, of 2 s, leaves room for.
const extendAbove = time.Second

// connectProcessor gives a pool the client of its processor. It takes over that of old.
func (pool *pool) connectProcessor(old *pool, log *slog.Logger) (err error) {
	switch c := pool.Processor; {
	case c == nil || pool.Relay != nil:
	case old != nil && old.processor != nil && reflect.DeepEqual(old.Processor.client(), c.client()):
		pool.processor = old.processor
	default:
		config := c.client()
		config.OnOpen = func(reason string) {
			log.Warn("the pool's processor has failed five times in a row, and is not asked for 10 s", "pool", pool.Name, "processor", c.Host, "reason", reason)
		}
		config.OnClose = func() { log.Info("the pool's processor answers again", "pool", pool.Name, "processor", c.Host) }
		pool.processor, err = processor.New(config)
	}
	return err
}

// client is what a Client is made of.
func (c *Processor) client() processor.Config {
	return processor.Config{Host: c.Host, Path: c.Path, Addresses: c.Addresses, TLS: c.TLS, Timeout: c.Timeout}
}

// closeProcessor ends the connections of a client that another pool has not taken over.
func (pool *pool) closeProcessor(now *pool) {
	if pool.processor != nil && (now == nil || now.processor != pool.processor) {
		pool.processor.Close()
	}
}

// processed is what a pool's processor has found out about a request.
type processed struct {
	*processor.Answer // nil: nothing
	outcome           processor.Outcome
	route             bool                          // it was asked for a worker
	worker            func(*endpoint.Endpoint) bool // the endpoints that it named; nil: the pool's strategy decides
	took              time.Duration
	fallback          string // why the pool's strategy decides although the processor was asked for a worker; "" if it does not
	problem           string // why there is no answer; "" with one
}

// Processed is what a pool's processor has made of a request.
type Processed struct {
	Outcome string        `json:"outcome"` // a processor.Outcome
	Took    time.Duration `json:"took"`
	Tokens  int           `json:"tokens,omitempty"`
	Worker  string        `json:"worker,omitempty"`   // that it named
	Own     string        `json:"fallback,omitempty"` // why the pool's strategy decided although it was asked for a worker
	Error   string        `json:"error,omitempty"`    // why it did not answer, in at most 200 bytes
}

// summary is what records have of it.
func (d *processed) summary() (out Processed) {
	if d.outcome == "" {
		return out
	}
	if out = (Processed{Outcome: string(d.outcome), Took: d.took, Own: d.fallback, Error: d.problem}); d.Answer != nil {
		out.Tokens, out.Worker = d.Count, d.Worker
	}
	return out
}

// Prepares is what is known about a pool's processor.
type Prepares struct {
	Host      string `json:"host"`
	Addresses int    `json:"addresses"`
	Open      bool   `json:"breakerOpen,omitempty"` // it is left alone
	Route     bool   `json:"route,omitempty"`       // it chooses endpoints, unless a request decides otherwise
}

// prepares describes the pool's processor; nil without one.
func (pool *pool) prepares() *Prepares {
	if pool.processor == nil {
		return nil
	}
	return &Prepares{Host: pool.Processor.Host, Addresses: len(pool.Processor.Addresses), Open: pool.processor.Open(), Route: pool.Processor.Route}
}

// process has the pool's processor prepare a request. It returns the pool's configuration after that, and true with an answer if the request
// is not picked for.
func (p *Picker) process(ctx context.Context, pool *pool, r *extproc.Request, d *decision) (*pool, extproc.Answer, bool) {
	sent := r.Sent()
	if pool.processor == nil || r.Facts.Size == 0 || len(sent) == 0 || r.Facts.Kind.GRPC() {
		return pool, extproc.Answer{}, false
	}
	q := &processor.Request{Body: sent, Headers: pool.processedHeaders(r)}
	d.processed.route = r.Facts.Route
	if !r.Facts.GivesRoute {
		q.Route, d.processed.route = pool.Processor.Route, pool.Processor.Route
	}
	started := time.Now()
	span := p.processSpan(ctx, d.span, r, q)
	d.processed.outcome = processor.Skipped
	var err error
	if pool.processor.Open() || r.Valid() {
		if timeout := pool.processor.Timeout(); timeout > extendAbove && !pool.processor.Open() {
			r.Extend(timeout + answerTime)
		}
		d.processed.Answer, d.processed.outcome, err = pool.processor.Process(ctx, q)
	}
	d.processed.took = time.Since(started)
	if err != nil {
		d.processed.problem = processor.Reason(err)
		p.log.Debug("the processor did not answer", "pool", pool.Name, "outcome", d.processed.outcome, "error", d.processed.problem)
	}
	endProcessSpan(span, pool, d, err)
	p.metrics.processed.count(pool.Name, d)
	if d.processed.outcome == processor.Canceled {
		a := immediate(503, ReasonCanceled, "the request was canceled")
		d.result, d.model, d.tokens = a.Reason, r.Facts.Model, r.Facts.Tokens
		return pool, a, true
	}
	if changed := p.pool(r.Pool); changed != nil && changed.Relay == nil {
		pool = changed
	}
	p.findWorker(pool, d)
	return pool, extproc.Answer{}, false
}

// credentials are headers that no processor receives.
var credentials = []string{"authorization", "proxy-authorization", "x-api-key", "api-key", "cookie", "set-cookie"}

// processedHeaders are those of a request that the pool's processor receives.
func (pool *pool) processedHeaders(r *extproc.Request) map[string]string {
	out := make(map[string]string, 1+len(pool.Processor.Headers))
	for _, name := range append(slices.Clip(pool.Processor.Headers), "x-request-id") {
		if value := r.Headers.Header(name); value != nil && !slices.Contains(credentials, name) && !strings.HasPrefix(name, ":") {
			out[name] = string(value)
		}
	}
	return out
}

// Reasons why the pool's own strategy decides about a request whose processor was asked for a worker.
const (
	noAnswer      = "no_answer"
	noWorker      = "no_worker"      // the answer names none
	unknownWorker = "unknown_worker" // it is none of the pool's endpoints
	busyWorker    = "busy_worker"    // it takes no further request, or is not among those that the request may be sent to
)

// findWorker finds the endpoints that a processor has named.
func (p *Picker) findWorker(pool *pool, d *decision) {
	switch {
	case !d.processed.route:
		return
	case d.processed.Answer == nil:
		p.fallBack(pool, d, noAnswer)
	case d.processed.Worker == "":
		p.fallBack(pool, d, noWorker)
	default:
		if d.processed.worker = pool.worker(d.processed.Worker); d.processed.worker == nil {
			p.fallBack(pool, d, unknownWorker)
			p.log.Debug("the processor named a worker that is not in the pool", "pool", pool.Name, "worker", d.processed.Worker)
		}
	}
}

// worker returns a filter for the pool's endpoints with an address: IP:PORT, or NAME:PORT of a pod or of a host in a ModelServers object. It
// returns nil if there is none.
func (pool *pool) worker(address string) func(*endpoint.Endpoint) bool {
	list := pool.snapshot.Endpoints
	if addr, err := netip.ParseAddrPort(address); err == nil {
		addr = netip.AddrPortFrom(addr.Addr().Unmap(), addr.Port())
		if _, ok := slices.BinarySearchFunc(list, addr, func(e endpoint.Endpoint, a netip.AddrPort) int { return e.Addr.Compare(a) }); !ok {
			return nil
		}
		return func(e *endpoint.Endpoint) bool { return e.Addr == addr }
	}
	i := strings.LastIndexByte(address, ':')
	if i <= 0 {
		return nil
	}
	port, err := strconv.ParseUint(address[i+1:], 10, 16)
	if err != nil {
		return nil
	}
	name := strings.ToLower(address[:i])
	found := func(e *endpoint.Endpoint) bool {
		_, host, server := strings.Cut(e.Pod, "/")
		return e.Addr.Port() == uint16(port) && (server && host == name || !server && e.Pod == name)
	}
	for k := range list {
		if found(&list[k]) {
			return found
		}
	}
	return nil
}

// openWorker opens a lease at one of the endpoints that the pool's processor has named; the strategy chooses among several, and the
// endpoints for retries. It returns false if none of them takes the request.
func (c *candidates) openWorker(ctx context.Context, worker func(*endpoint.Endpoint) bool) bool {
	own := c.allowed
	c.allowed = func(e *endpoint.Endpoint) bool { return worker(e) && (own == nil || own(e)) }
	opened := c.open(ctx, c.pool.strategy)
	if c.allowed = own; !opened {
		return false
	}
	first := c.ranked[0]
	if n := c.pool.Fallbacks; n > 0 {
		others := func(e *endpoint.Endpoint) bool { return e != first.Endpoint && (own == nil || own(e)) }
		c.ranked = append([]schedule.Candidate{first}, c.pool.strategy.Rank(&c.request, c.at, c.pool.snapshot.Endpoints, others, n, c.stage)...)
	}
	return true
}

// addProcessed adds to a pick's answer what the pool's processor has answered.
func (d *decision) addProcessed(pool *pool, a *extproc.Answer) {
	if d.processed.Answer == nil || a.Status != 0 {
		return
	}
	a.TokenIDs = d.processed.Tokens
	if pool.dynamo() != nil && d.processed.Count > 0 {
		a.TokenData = d.processed.Tokens
	}
	if key := d.processed.TokenKey; key != "" {
		a.Headers = append(slices.Clip(a.Headers), extproc.Header{Name: endpointpicker.HeaderTokensKey, Value: key})
	}
}

// useTokens has a request go by the tokens that the pool's processor has found: the server gets these. They are compared with what servers
// report, unless the prompt has images, which their blocks are hashed with.
func (d *decision) useTokens(pool *pool, r *extproc.Request, q *schedule.Request) {
	if d.processed.Answer == nil || d.processed.Count == 0 {
		return
	}
	q.Tokens = min(d.processed.Count, prefix.MaxTokens)
	if pool.KVEvents == nil || r.Facts.Media || !pool.reports() {
		return
	}
	var tokens prefix.Tokens
	for id := range d.processed.IDs() {
		tokens.Add(id)
	}
	exact := tokens.Exact().Clone()
	exact.Salt = q.Exact.Salt
	q.Exact = exact
}

// processSpan starts the span of a call, and sets its trace context: without a span of the pick it is that of the request.
func (p *Picker) processSpan(ctx context.Context, pick trace.Span, r *extproc.Request, q *processor.Request) trace.Span {
	if pick == nil {
		q.TraceParent = cmp.Or(r.TraceParent, string(r.Headers.Header("traceparent")))
		return nil
	}
	ctx, span := p.tracer.Start(trace.ContextWithSpan(ctx, pick), "POST "+processor.Path, trace.WithSpanKind(trace.SpanKindClient))
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	q.TraceParent = carrier["traceparent"]
	return span
}

func endProcessSpan(span trace.Span, pool *pool, d *decision, err error) {
	if span == nil {
		return
	}
	span.SetAttributes(attribute.String("http.request.method", "POST"), attribute.String("server.address", pool.Processor.Host), attribute.String("penstock.pool", pool.Name),
		attribute.String("penstock.process.outcome", string(d.processed.outcome)), attribute.Bool("penstock.process.route", d.processed.route))
	if a := d.processed.Answer; a != nil {
		span.SetAttributes(attribute.Int("penstock.process.tokens", a.Count), attribute.String("penstock.process.worker", a.Worker))
	}
	if err != nil {
		span.SetStatus(codes.Error, err.Error())
	}
	span.End()
}

// processMetrics are those of processors.
type processMetrics struct {
	seconds   *prometheus.HistogramVec
	tokens    *prometheus.CounterVec
	fallbacks *prometheus.CounterVec
}

var breakerDesc = prometheus.NewDesc("penstock_picker_process_breaker_open",
	"1 while the pool's processor is left alone, because it has failed five times in a row.", []string{"pool"}, nil)

func newProcessMetrics() processMetrics {
	return processMetrics{
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "penstock_picker_process_seconds",
			Help:    "Time that picks have waited for the pool's processor, by outcome: processed, rejected (status 400, 413, 415 or 422), failed (an error, late, or an invalid answer), skipped (not asked: it is left alone, too many calls are in flight, or the body is no JSON object), or canceled (the client has left).",
			Buckets: []float64{0.0005, 0.002, 0.005, 0.02, 0.05, 0.1, 0.5, 1, 2, 10, 60}}, []string{"pool", "outcome"}),
		tokens: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "penstock_picker_process_tokens_total",
			Help: "Token IDs that the pool's processor has answered with."}, []string{"pool"}),
		fallbacks: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "penstock_picker_process_fallbacks_total",
			Help: "Requests that the pool's own strategy decided about although the processor was asked for a worker, by reason: no_answer, no_worker (the answer names none), unknown_worker (none of the pool's endpoints), or busy_worker (it takes no further request, or is not among the endpoints that the request may be sent to)."}, []string{"pool", "reason"}),
	}
}

func (m *processMetrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.seconds, m.tokens, m.fallbacks}
}

func (m *processMetrics) count(pool string, d *decision) {
	m.seconds.WithLabelValues(pool, string(d.processed.outcome)).Observe(d.processed.took.Seconds())
	if a := d.processed.Answer; a != nil && a.Count > 0 {
		m.tokens.WithLabelValues(pool).Add(float64(a.Count))
	}
}

// fallBack notes why the pool's strategy decides about a request.
func (p *Picker) fallBack(pool *pool, d *decision, reason string) {
	d.processed.fallback = reason
	p.metrics.processed.fallbacks.WithLabelValues(pool.Name, reason).Inc()
}

// remove deletes a removed pool's series.
func (m *processMetrics) remove(labels prometheus.Labels) {
	m.seconds.DeletePartialMatch(labels)
	m.tokens.DeletePartialMatch(labels)
	m.fallbacks.DeletePartialMatch(labels)
}
