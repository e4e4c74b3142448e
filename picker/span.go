package picker

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/penstock-project/penstock/picker/extproc"
)

// span begins the span of a pick, or returns nil: tracing is off, or nobody who asks is sampled. Its parent is the ext_proc
// call's own span, from the gRPC metadata; the header inside the message holds the client's, one step further away, and
// serves where the gateway traces nothing itself.
func (p *Picker) span(ctx context.Context, r *extproc.Request, started time.Time) trace.Span {
	if p.tracer == nil {
		return nil
	}
	for _, text := range [...]string{r.TraceParent, string(r.Headers.Header("traceparent"))} {
		if text == "" {
			continue
		}
		parent := propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{"traceparent": text})
		if c := trace.SpanContextFromContext(parent); c.IsValid() {
			if !c.IsSampled() {
				return nil
			}
			_, span := p.tracer.Start(parent, "pick", trace.WithTimestamp(started), trace.WithSpanKind(trace.SpanKindServer))
			return span
		}
	}
	return nil
}

func endSpan(span trace.Span, pool *pool, a *extproc.Answer, d *decision) {
	span.SetAttributes(
		attribute.String("penstock.pool", pool.Name),
		attribute.String("penstock.strategy", pool.strategy.Name()),
		attribute.Int("penstock.candidates", d.candidates),
		attribute.String("penstock.chosen", a.Endpoints),
		attribute.String("penstock.reason", d.result),
	)
	if a.Status != 0 {
		span.SetStatus(codes.Error, a.Message)
	}
	span.End()
}
