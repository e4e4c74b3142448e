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

// span starts the span of a pick. It returns nil if tracing is off or the caller is not sampled. The parent is the span of
// the ext_proc call, from the gRPC metadata. If the gateway doesn't trace, it is the client's span, from the request header
// inside the message.
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
