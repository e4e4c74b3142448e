package picker

import (
	"context"
	"net/netip"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/penstock-project/penstock/picker/extproc"
	"github.com/penstock-project/penstock/picker/request"
)

// span starts the span of a pick. It returns nil if tracing is off or the caller's trace is not
// sampled. The parent is the span of the ext_proc call or, without one, the client's span.
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
			_, span := p.tracer.Start(parent, "pick", trace.WithTimestamp(started),
				trace.WithSpanKind(trace.SpanKindServer))
			return span
		}
	}
	return nil
}

var operations = map[request.Kind]string{
	request.ChatCompletions: "chat", request.Responses: "chat", request.Messages: "chat",
	request.Completions: "text_completion", request.Generate: "text_completion",
	request.GRPCGenerate: "text_completion", request.Embeddings: "embeddings", request.GRPCEmbed: "embeddings",
}

// endSpan sets OpenTelemetry's attributes for generative AI. The number of tokens is an estimate
// if the request has no token IDs.
func (k *pick) endSpan() {
	span, pool, r, a := k.span, k.pool, k.request, &k.answer
	if k.model != "" {
		span.SetAttributes(attribute.String("gen_ai.request.model", k.model))
	}
	if by := caller(r); len(by) > 0 {
		span.SetAttributes(attribute.String("enduser.id", strings.ToValidUTF8(string(by), "")))
	}
	if t := r.Facts.Target; t != nil {
		span.SetAttributes(attribute.String("penstock.served_model", t.Name))
	}
	if name := operations[r.Facts.Kind]; name != "" {
		span.SetAttributes(attribute.String("gen_ai.operation.name", name))
	}
	if r.Facts.MaxTokens > 0 {
		span.SetAttributes(attribute.Int("gen_ai.request.max_tokens", r.Facts.MaxTokens))
	}
	if k.tokens > 0 {
		span.SetAttributes(attribute.Int("gen_ai.usage.input_tokens", k.tokens))
		if k.compared > 0 && k.lease != nil {
			span.SetAttributes(attribute.Int("gen_ai.usage.cache_read.input_tokens", int(k.choices[0].cached)))
		}
	}
	endpoints := a.Endpoints.String()
	first, _, _ := strings.Cut(endpoints, ",")
	if at, err := netip.ParseAddrPort(first); err == nil {
		span.SetAttributes(attribute.String("server.address", at.Addr().String()),
			attribute.Int("server.port", int(at.Port())))
	}
	for _, stage := range [...]string{stagePrefill, stageEncode} {
		if at := k.further.text(stage); at != "" {
			span.SetAttributes(attribute.String("penstock."+stage, at))
		}
	}
	if len(k.further.lacks) > 0 {
		span.SetAttributes(attribute.StringSlice("penstock.missing", k.further.lacks))
	}
	span.SetAttributes(
		attribute.String("penstock.pool", pool.Name),
		attribute.String("penstock.strategy", pool.strategy.Name()),
		attribute.Int("penstock.candidates", k.candidates),
		attribute.String("penstock.chosen", endpoints),
		attribute.String("penstock.reason", k.result),
	)
	if a.Status != 0 {
		span.SetStatus(codes.Error, a.Message)
	}
	span.End()
}
