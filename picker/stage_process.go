package picker

import (
	"cmp"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/penstock-project/penstock/picker/endpoint"
	"github.com/penstock-project/penstock/picker/extproc"
	"github.com/penstock-project/penstock/picker/processor"
)

// process calls the pool's processor, and sets its result. After a timeout, and while the circuit
// breaker is open, the pick continues without a result. If the pool's configuration changes during
// the call, the pick continues with the new one. process ends the pick if the client has
// disconnected.
func process(k *pick) {
	pool, r, d := k.pool, k.request, &k.processed
	if pool.processor == nil {
		return
	}
	sent := r.Sent()
	if r.Facts.Size == 0 || len(sent) == 0 || r.Facts.Kind.GRPC() {
		return
	}
	q := &processor.Request{Body: sent, Headers: pool.processedHeaders(r)}
	d.route = r.Facts.Route
	if !r.Facts.GivesRoute {
		q.Route, d.route = pool.Processor.Route, pool.Processor.Route
	}
	started := time.Now()
	span := k.processSpan(q)
	d.outcome = processor.Skipped
	var err error
	if pool.processor.Open() || r.Valid() {
		if timeout := pool.processor.Timeout(); timeout > extendAbove && !pool.processor.Open() {
			r.Extend(timeout + answerTime)
		}
		// While the circuit breaker is open, Process fails without a call.
		d.Answer, d.outcome, err = pool.processor.Process(k.ctx, q)
	}
	d.took = time.Since(started)
	if err != nil {
		d.problem = processor.Reason(err)
		k.picker.config.Log.Debug("the processor did not answer", "pool", pool.Name, "outcome", d.outcome, "error",
			d.problem)
	}
	endProcessSpan(span, pool, d, err)
	k.picker.metrics.processed.count(pool.Name, d)
	k.started = time.Now()
	if d.outcome == processor.Canceled {
		k.decide(immediate(503, ReasonCanceled, "the request was canceled"), ReasonCanceled)
		k.model, k.tokens = r.Facts.Model, r.Facts.Tokens
		return
	}
	k.refresh()
	k.findWorker()
}

func processedBy(r *Record) string {
	if r.Processor == nil {
		return ""
	}
	return "the processor's outcome is " + r.Processor.Outcome
}

var credentials = []string{"authorization", "proxy-authorization", "x-api-key", "api-key", "cookie", "set-cookie"}

func (pool *pool) processedHeaders(r *extproc.Request) map[string]string {
	out := make(map[string]string, 1+len(pool.Processor.Headers))
	for _, name := range append(slices.Clip(pool.Processor.Headers), "x-request-id") {
		if value := r.Headers.Header(name); value != nil && !slices.Contains(credentials, name) &&
			!strings.HasPrefix(name, ":") {
			out[name] = string(value)
		}
	}
	return out
}

// Reasons why the pool's strategy chooses the endpoint instead of the processor.
const (
	noAnswer      = "no_answer"
	noWorker      = "no_worker"
	unknownWorker = "unknown_worker"
	// busyWorker means that the worker accepts no more requests, or is not allowed for this one.
	busyWorker = "busy_worker"
)

func (k *pick) findWorker() {
	switch d := &k.processed; {
	case !d.route:
		return
	case d.Answer == nil:
		k.fallBack(noAnswer)
	case d.Worker == "":
		k.fallBack(noWorker)
	default:
		if d.worker = k.pool.worker(d.Worker); d.worker == nil {
			k.fallBack(unknownWorker)
			k.picker.config.Log.Debug("the processor named a worker that is not in the pool", "pool", k.pool.Name,
				"worker", d.Worker)
		}
	}
}

// worker returns a filter for the pool's endpoints at an address, or nil if the pool has none. An
// address is IP:PORT, or NAME:PORT with a pod's name or a host of a ModelServers object.
func (pool *pool) worker(address string) func(*endpoint.Endpoint) bool {
	list := pool.snapshot.Endpoints
	if addr, err := netip.ParseAddrPort(address); err == nil {
		addr = netip.AddrPortFrom(addr.Addr().Unmap(), addr.Port())
		if _, ok := slices.BinarySearchFunc(list, addr,
			func(e endpoint.Endpoint, a netip.AddrPort) int { return e.Addr.Compare(a) }); !ok {
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

func (k *pick) fallBack(reason string) {
	k.processed.fallback = reason
	k.picker.metrics.processed.fallbacks.WithLabelValues(k.pool.Name, reason).Inc()
}

func (k *pick) processSpan(q *processor.Request) trace.Span {
	r := k.request
	if k.span == nil {
		q.TraceParent = cmp.Or(r.TraceParent, string(r.Headers.Header("traceparent")))
		return nil
	}
	ctx, span := k.picker.tracer.Start(trace.ContextWithSpan(k.ctx, k.span), "POST "+processor.Path,
		trace.WithSpanKind(trace.SpanKindClient))
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	q.TraceParent = carrier["traceparent"]
	return span
}

func endProcessSpan(span trace.Span, pool *pool, d *processed, err error) {
	if span == nil {
		return
	}
	span.SetAttributes(attribute.String("http.request.method", "POST"),
		attribute.String("server.address", pool.Processor.Host), attribute.String("penstock.pool", pool.Name),
		attribute.String("penstock.process.outcome", string(d.outcome)),
		attribute.Bool("penstock.process.route", d.route))
	if a := d.Answer; a != nil {
		span.SetAttributes(attribute.Int("penstock.process.tokens", a.Count),
			attribute.String("penstock.process.worker", a.Worker))
	}
	if err != nil {
		span.SetStatus(codes.Error, err.Error())
	}
	span.End()
}
