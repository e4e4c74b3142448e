package picker

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/penstock-project/penstock/picker/accesslog"
	"github.com/penstock-project/penstock/picker/endpoint"
	"github.com/penstock-project/penstock/picker/extproc"
	"github.com/penstock-project/penstock/picker/prefix"
	"github.com/penstock-project/penstock/picker/request"
)

func ask(t *testing.T, p *Picker, model string, status int) {
	t.Helper()
	r := &extproc.Request{Pool: "ns/pool", Headers: &extproc.Message{},
		Facts: request.Facts{Kind: request.ChatCompletions, Model: model, Size: 600, Tokens: 150,
			Chain: prefix.Chain{7, 8}, MaxTokens: 99}}
	a := p.Pick(t.Context(), r)
	p.LogOwn(accesslog.Entry{Lease: a.Lease.String(), Served: a.Endpoints.String(), Status: status,
		FirstByte: time.Second})
}

func TestMetrics_RequestsAndTokensByModel(t *testing.T) {
	registry := prometheus.NewRegistry()
	p, err := New(Config{Registerer: registry})
	if err != nil {
		t.Fatal(err)
	}
	pool := Pool{ID: poolID("ns/pool"), Endpoints: specs("10.0.0.1:80", "10.0.0.2:80")}
	setPools(t, p, pool)
	for name := range gathered(t, registry) {
		if len(name) > 21 && name[:21] == "penstock_picker_model" {
			t.Errorf("%s before the first request, want no series", name)
		}
	}
	ask(t, p, "llama", 200)
	ask(t, p, "llama", 200) // the second prompt's first 128 tokens are cached
	ask(t, p, "nonsense", 404)
	ask(t, p, "llama", 500)
	ask(t, p, "bad \xff", 200)
	got := gathered(t, registry)
	want := map[string]float64{
		"penstock_picker_model_requests_total llama served ns/pool":      2,
		"penstock_picker_model_requests_total llama failed ns/pool":      1,
		"penstock_picker_model_first_byte_seconds_total llama ns/pool":   2,
		"penstock_picker_model_prompt_tokens_total llama ns/pool input":  300,
		"penstock_picker_model_prompt_tokens_total llama ns/pool cached": 128,
		"penstock_picker_model_requests_total other failed ns/pool":      1,
		"penstock_picker_model_requests_total bad \uFFFD served ns/pool": 1,
	}
	have := map[string]float64{}
	for name := range want {
		have[name] = got[name]
	}
	if diff := cmp.Diff(want, have); diff != "" {
		t.Error(diff)
	}
	for i := range maxModels + 10 {
		ask(t, p, fmt.Sprintf("model-%d", i), 200)
	}
	if got = gathered(t, registry); len(p.records.usage.models) != maxModels+1 ||
		got["penstock_picker_model_requests_total other served ns/pool"] != 12 {
		t.Errorf("%d models have series, and other requests are %v, want %d and 12", len(p.records.usage.models),
			got["penstock_picker_model_requests_total other served ns/pool"], maxModels+1)
	}
	setPools(t, p)
	if len(p.records.usage.models) != 0 || p.records.usage.names != 0 {
		t.Errorf("%d models of a pool that is gone, want none", len(p.records.usage.models))
	}
}

func TestMetrics_QueueAndSaturationOfFreshPages(t *testing.T) {
	registry := prometheus.NewRegistry()
	p, err := New(Config{Registerer: registry})
	if err != nil {
		t.Fatal(err)
	}
	setPools(t, p, Pool{ID: poolID("ns/pool"), Endpoints: specs("10.0.0.1:80", "10.0.0.2:80", "10.0.0.3:80")})
	if _, ok := gathered(t, registry)["penstock_picker_queue_requests ns/pool"]; ok {
		t.Error("a queue without a page")
	}
	list := p.pool("ns/pool").snapshot.Endpoints
	list[0].BeginScrape().Succeed(endpoint.Reading{Queue: 3, Running: 5, KV: 0.5}, time.Now())
	list[1].BeginScrape().Succeed(endpoint.Reading{Running: 5, KV: 0.5}, time.Now())
	got := gathered(t, registry)
	if got["penstock_picker_queue_requests ns/pool"] != 3 || got["penstock_picker_saturation_ratio ns/pool"] != 0.75 {
		t.Errorf("queue %v, saturation %v, want 3 and 0.75", got["penstock_picker_queue_requests ns/pool"],
			got["penstock_picker_saturation_ratio ns/pool"])
	}
}

func TestTracing_PickHasGenAIAttributes(t *testing.T) {
	spans := tracetest.NewInMemoryExporter()
	p, err := New(Config{Tracer: trace.NewTracerProvider(trace.WithSyncer(spans))})
	if err != nil {
		t.Fatal(err)
	}
	setPools(t, p, Pool{ID: poolID("ns/pool"), Endpoints: specs("10.0.0.1:80")})
	r := &extproc.Request{Pool: "ns/pool", TraceParent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
		Headers: &extproc.Message{},
		Facts: request.Facts{Kind: request.ChatCompletions, Model: "llama", Size: 600, Tokens: 150,
			Chain: prefix.Chain{7, 8}, MaxTokens: 99}}
	p.Pick(t.Context(), r)
	p.Pick(t.Context(), r)
	got := map[string]string{}
	for _, a := range spans.GetSpans()[1].Attributes {
		got[string(a.Key)] = a.Value.String()
	}
	for key, want := range map[string]string{
		"gen_ai.operation.name": "chat", "gen_ai.request.model": "llama", "gen_ai.request.max_tokens": "99",
		"gen_ai.usage.input_tokens": "150", "gen_ai.usage.cache_read.input_tokens": "128",
		"server.address": "10.0.0.1", "server.port": "80",
	} {
		if got[key] != want {
			t.Errorf("%s is %q, want %q", key, got[key], want)
		}
	}
}
