package picker

import (
	"log/slog"
	"reflect"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/penstock-project/penstock/picker/dial"
	"github.com/penstock-project/penstock/picker/endpoint"
	"github.com/penstock-project/penstock/picker/processor"
)

// Processor is a service that prepares a pool's requests (package processor).
type Processor struct {
	Host      string
	Path      string         // "" means processor.Path
	Addresses []dial.Address // the picker spreads its calls over these addresses
	TLS       dial.TLS
	Timeout   time.Duration // 0 means processor.DefaultTimeout
	// Headers are additional headers for the processor, in lower case.
	Headers []string
	// Route lets the processor choose the endpoint. The member "route" of a request's JSON body
	// takes precedence.
	Route bool
}

// extendAbove is the longest processor timeout that fits into Envoy's 2 s timeout of a pick. Longer
// timeouts make the pick ask Envoy for an extension.
const extendAbove = time.Second

func (pool *pool) connectProcessor(old *pool, log *slog.Logger) (err error) {
	switch c := pool.Processor; {
	case c == nil || pool.Relay != nil || pool.Clusters != nil || pool.Gateways:
	case old != nil && old.processor != nil && reflect.DeepEqual(old.Processor.client(), c.client()):
		pool.processor = old.processor
	default:
		config := c.client()
		config.OnOpen = func(reason string) {
			log.Warn("the pool's processor has failed five times in a row, and is not asked for 10 s", "pool",
				pool.Name, "processor", c.Host, "reason", reason)
		}
		config.OnClose = func() {
			log.Info("the pool's processor answers again", "pool", pool.Name, "processor", c.Host)
		}
		pool.processor, err = processor.New(config)
	}
	return err
}

func (c *Processor) client() processor.Config {
	return processor.Config{Host: c.Host, Path: c.Path, Addresses: c.Addresses, TLS: c.TLS, Timeout: c.Timeout}
}

func (pool *pool) closeProcessor(now *pool) {
	if pool.processor != nil && (now == nil || now.processor != pool.processor) {
		pool.processor.Close()
	}
}

type processed struct {
	*processor.Answer
	outcome processor.Outcome
	route   bool
	worker  func(*endpoint.Endpoint) bool // selects the chosen worker's endpoints; nil if the strategy decides
	took    time.Duration
	// fallback is why the strategy decides although a worker was requested, or "".
	fallback string
	problem  string // why the processor gave no answer, or ""
}

// Processed is a processor's result for a request.
type Processed struct {
	Outcome string        `json:"outcome"`
	Took    time.Duration `json:"took"`
	Tokens  int           `json:"tokens,omitempty"`
	Worker  string        `json:"worker,omitempty"`
	// Own is why the strategy decided although the request asked for a worker, or "".
	Own   string `json:"fallback,omitempty"`
	Error string `json:"error,omitempty"` // at most 200 bytes
}

func (d *processed) summary() (out Processed) {
	if d.outcome == "" {
		return out
	}
	if out = (Processed{Outcome: string(d.outcome), Took: d.took, Own: d.fallback, Error: d.problem}); d.Answer != nil {
		out.Tokens, out.Worker = d.Count, d.Worker
	}
	return out
}

// Prepares describes a pool's processor.
type Prepares struct {
	Host      string `json:"host"`
	Addresses int    `json:"addresses"`
	Open      bool   `json:"breakerOpen,omitempty"`
	Route     bool   `json:"route,omitempty"` // a body's member "route" takes precedence
}

func (pool *pool) prepares() *Prepares {
	if pool.processor == nil {
		return nil
	}
	return &Prepares{Host: pool.Processor.Host, Addresses: len(pool.Processor.Addresses), Open: pool.processor.Open(),
		Route: pool.Processor.Route}
}

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
			Help: "Time that picks have waited for the pool's processor, by outcome: processed, rejected (status " +
				"400, 413, 415 or 422), failed (an error, late, or an invalid answer), skipped (not asked: it is " +
				"left alone, too many calls are in flight, or the body is no JSON object), or canceled (the client " +
				"has left).",
			Buckets: []float64{0.0005, 0.002, 0.005, 0.02, 0.05, 0.1, 0.5, 1, 2, 10, 60}}, []string{"pool", "outcome"}),
		tokens: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "penstock_picker_process_tokens_total",
			Help: "Token IDs that the pool's processor has answered with."}, []string{"pool"}),
		fallbacks: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "penstock_picker_process_fallbacks_total",
			Help: "Requests that the pool's own strategy decided about although the processor was asked for a " +
				"worker, by reason: no_answer, no_worker (the answer names none), unknown_worker (none of the pool's " +
				"endpoints), or busy_worker (it takes no further request, or is not among the endpoints that the " +
				"request may be sent to)."}, []string{"pool", "reason"}),
	}
}

func (m *processMetrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.seconds, m.tokens, m.fallbacks}
}

func (m *processMetrics) count(pool string, d *processed) {
	m.seconds.WithLabelValues(pool, string(d.outcome)).Observe(d.took.Seconds())
	if a := d.Answer; a != nil && a.Count > 0 {
		m.tokens.WithLabelValues(pool).Add(float64(a.Count))
	}
}

func (m *processMetrics) remove(labels prometheus.Labels) {
	m.seconds.DeletePartialMatch(labels)
	m.tokens.DeletePartialMatch(labels)
	m.fallbacks.DeletePartialMatch(labels)
}
