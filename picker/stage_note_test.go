package picker

import (
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/penstock-project/penstock/picker/endpoint"
	"github.com/penstock-project/penstock/picker/schedule"
)

func TestMetrics_CountPicksAndDropRemovedPools(t *testing.T) {
	registry := prometheus.NewRegistry()
	p := runPicker(t, Config{Registerer: registry})
	_, address := servePicker(t, p)
	setPools(t, p, Pool{ID: poolID("ns/a"), Strategy: "random", Endpoints: specs("10.0.0.1:80")},
		Pool{ID: poolID("ns/empty")}, Pool{ID: poolID("ns/paged"), Endpoints: specs("10.0.0.1:80", "10.0.0.2:80")})
	p.pool("ns/paged").snapshot.Endpoints[0].BeginScrape().Succeed(endpoint.Reading{Problem: "no series"}, time.Now())
	conn := dialPicker(t, address)
	for _, pool := range []string{"ns/a", "ns/a", "ns/empty", ""} {
		stream, _ := call(t, conn, "x-penstock-pool", pool)
		exchange(t, stream, headerMessage(nil))
	}
	for series, want := range map[string]float64{
		"penstock_picker_in_flight_requests ns/a":           2,
		"penstock_picker_in_flight_requests ns/empty":       0,
		"penstock_picker_picks_total ns/a picked":           2,
		"penstock_picker_picks_total ns/empty no_endpoints": 1,
		"penstock_picker_unknown_pool_total":                1,
		"penstock_picker_endpoints ns/a stale":              0, // round-robin reads no pages
		"penstock_picker_endpoints ns/a unread":             1,
		"penstock_picker_page_problems ns/a":                0,
		"penstock_picker_endpoints ns/paged unread":         0,
		"penstock_picker_page_problems ns/paged":            1,
	} {
		if got, ok := gathered(t, registry)[series]; !ok || got != want {
			t.Errorf("%s: %v (there: %v), want %v", series, got, ok, want)
		}
	}
	p.Remove(poolID("ns/a"))
	for series := range gathered(t, registry) {
		if strings.Contains(series, " ns/a ") || strings.HasSuffix(series, " ns/a") {
			t.Errorf("%s remains of a removed pool", series)
		}
	}
}

func TestTracing_PickIsSpanOfSampledCall(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	p := runPicker(t, Config{Tracer: trace.NewTracerProvider(trace.WithSpanProcessor(spans))})
	_, address := servePicker(t, p)
	setPools(t, p, Pool{ID: poolID("ns/pool"), Strategy: "round-robin", Endpoints: specs("10.0.0.1:80")})
	conn := dialPicker(t, address)
	const (
		id     = "0af7651916cd43dd8448eb211c80319c"
		caller = "00-" + id + "-00000000000000aa-01"
		client = "00-" + id + "-00000000000000bb-01"
	)
	for _, tt := range []struct{ call, header, parent string }{
		{caller, client, "00000000000000aa"},
		{"", client, "00000000000000bb"},
		{strings.TrimSuffix(caller, "1") + "0", client, ""},
		{"", "", ""},
	} {
		spans.Reset()
		pairs := []string{"x-penstock-pool", "ns/pool"}
		if tt.call != "" {
			pairs = append(pairs, "traceparent", tt.call)
		}
		stream, cancel := call(t, conn, pairs...)
		exchange(t, stream, headerMessage(nil, "traceparent", tt.header))
		cancel()
		ended := spans.Ended()
		if tt.parent == "" {
			if len(ended) != 0 {
				t.Errorf("%+v: a span without a sampled parent", tt)
			}
			continue
		}
		if len(ended) != 1 || ended[0].Parent().SpanID().String() != tt.parent || ended[0].Name() != "pick" {
			t.Fatalf("%+v: got spans %v, want one pick of that parent", tt, ended)
		}
		got := map[attribute.Key]string{}
		for _, a := range ended[0].Attributes() {
			got[a.Key] = a.Value.String()
		}
		if got["penstock.pool"] != "ns/pool" || got["penstock.strategy"] != "round-robin" ||
			got["penstock.candidates"] != "1" ||
			got["penstock.chosen"] != "10.0.0.1:80" || got["penstock.reason"] != "picked" {
			t.Errorf("attributes %v, want a round-robin pick of 10.0.0.1:80 in ns/pool", got)
		}
	}
}

func TestDebugPicks_ShowWhyEndpointWasPicked(t *testing.T) {
	p := runPicker(t, Config{})
	_, address := servePicker(t, p)
	list := specs("10.0.0.1:80", "10.0.0.2:80")
	list[1].Draining = true
	setPools(t, p,
		Pool{ID: poolID("ns/pool"), Strategy: "least-request", Full: schedule.Full{InFlight: 9}, Endpoints: list})
	stream, _ := call(t, dialPicker(t, address), "x-penstock-pool", "ns/pool")
	exchange(t, stream, headerMessage(nil))
	w := httptest.NewRecorder()
	p.ServeHTTP(w, httptest.NewRequest("GET", "/debug/picks?pool=ns/pool", nil))
	var page struct{ Picks []Record }
	if err := json.Unmarshal(w.Body.Bytes(), &page); err != nil || len(page.Picks) != 1 {
		t.Fatalf("got %v %s, want one pick", err, w.Body)
	}
	pick := page.Picks[0]
	if pick.Endpoints != "10.0.0.1:80" || pick.Result != "picked" || pick.Verdicts[0].State.InFlight != 0 ||
		pick.Verdicts[1].Out != "draining" {
		t.Errorf("got %+v, want 10.0.0.1:80 picked, its state before the pick, and the second draining", pick)
	}
	w = httptest.NewRecorder()
	p.ServeHTTP(w, httptest.NewRequest("GET", "/debug/picks?pool=unknown", nil))
	if w.Code != 404 {
		t.Errorf("unknown pool: %d, want 404", w.Code)
	}
}
