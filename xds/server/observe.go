package server

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/penstock-project/penstock/xds/publish"
	"github.com/penstock-project/penstock/xds/resource"
)

// There are too many gateways and nodes for labels.
type metrics struct {
	streams   prometheus.Gauge
	responses *prometheus.CounterVec
	resources *prometheus.CounterVec
	bytes     *prometheus.CounterVec
	nacks     *prometheus.CounterVec
	ack       *prometheus.HistogramVec
}

func newMetrics(r prometheus.Registerer, lag func() (behind, rejecting int)) (*metrics, error) {
	counter := func(name, help string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "penstock_xds_" + name, Help: help},
			[]string{"type"})
	}
	m := &metrics{
		streams:   prometheus.NewGauge(prometheus.GaugeOpts{Name: "penstock_xds_streams", Help: "Connected proxies."}),
		responses: counter("responses_total", "Responses sent to proxies."),
		resources: counter("resources_total", "Resources sent in responses, removals included."),
		bytes:     counter("bytes_total", "Bytes of responses."),
		nacks:     counter("nacks_total", "NACKs received: responses that proxies rejected."),
		ack: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "penstock_xds_commit_to_ack_seconds", Help: "Time from the commit of a change to its ACK by a proxy.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2.5, 12),
		}, []string{"type"}),
	}
	if r == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.streams, m.responses, m.resources, m.bytes, m.nacks, m.ack,
		lagCollector(lag)} {
		if err := r.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

var (
	behindDesc = prometheus.NewDesc("penstock_xds_streams_behind",
		"Connected proxies without an ACK for some desired resource. Persistently above zero: they do "+
			"not answer, or a cluster never warms.", nil, nil)
	rejectingDesc = prometheus.NewDesc("penstock_xds_streams_rejecting",
		"Connected proxies that reject a resource (NACK); its last good version stays in force.", nil, nil)
)

type lagCollector func() (behind, rejecting int)

func (lagCollector) Describe(out chan<- *prometheus.Desc) {
	out <- behindDesc
	out <- rejectingDesc
}

func (t lagCollector) Collect(out chan<- prometheus.Metric) {
	behind, rejecting := t()
	out <- prometheus.MustNewConstMetric(behindDesc, prometheus.GaugeValue, float64(behind))
	out <- prometheus.MustNewConstMetric(rejectingDesc, prometheus.GaugeValue, float64(rejecting))
}

func (m *metrics) connected(n float64) { m.streams.Add(n) }

func (m *metrics) sent(r *publish.Response, size int) {
	t := r.Type.String()
	m.responses.WithLabelValues(t).Inc()
	m.resources.WithLabelValues(t).Add(float64(len(r.Upserts) + len(r.Removed)))
	m.bytes.WithLabelValues(t).Add(float64(size))
}

type sending struct {
	committed time.Time // zero if the change preceded the connection
	span      trace.Span
}

// The caller holds st.mu.
func (st *stream) begin(r *publish.Response) {
	var snd sending
	var links []trace.Link
	for _, e := range r.Upserts {
		if e.Commit == nil || e.Commit.At.Before(st.since) {
			continue
		}
		if e.Commit.At.After(snd.committed) {
			snd.committed = e.Commit.At
		}
		if tr := e.Commit.Trace; tr.IsValid() && len(links) < maxLinks && !linked(links, tr) {
			links = append(links, trace.Link{SpanContext: tr})
		}
	}
	if snd.committed.IsZero() {
		return
	}
	if len(links) > 0 {
		// The first change is the parent span, and other changes are links.
		ctx := trace.ContextWithRemoteSpanContext(context.Background(), links[0].SpanContext)
		_, snd.span = st.server.tracer.Start(ctx, "publish", trace.WithTimestamp(snd.committed),
			trace.WithLinks(links[1:]...),
			trace.WithAttributes(
				attribute.String("penstock.gateway", st.gateway), attribute.String("penstock.node", st.node.GetId()),
				attribute.String("penstock.type", r.Type.String()), attribute.Int("penstock.resources", len(r.Upserts)),
			))
	}
	st.sent[r.Nonce] = snd
}

const maxLinks = 16

func linked(links []trace.Link, c trace.SpanContext) bool {
	for _, l := range links {
		if l.SpanContext.Equal(c) {
			return true
		}
	}
	return false
}

// The caller holds st.mu.
func (st *stream) finish(t resource.Type, r request, now time.Time) {
	snd, ok := st.sent[r.nonce]
	delete(st.sent, r.nonce)
	if r.nack != "" {
		st.server.metrics.nacks.WithLabelValues(t.String()).Inc()
	}
	if !ok {
		return
	}
	if r.nack == "" {
		st.server.metrics.ack.WithLabelValues(t.String()).Observe(now.Sub(snd.committed).Seconds())
	}
	if snd.span != nil {
		if r.nack != "" {
			snd.span.SetStatus(codes.Error, r.nack)
		}
		snd.span.End(trace.WithTimestamp(now))
	}
}

func (s sending) abandon() {
	if s.span != nil {
		s.span.SetStatus(codes.Error, "the proxy disconnected")
		s.span.End()
	}
}
