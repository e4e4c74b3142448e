package picker

import (
	"fmt"
	mathrand "math/rand/v2"
	"net/http"
	"strings"
	"testing"

	filterv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"github.com/penstock-project/penstock/picker/schedule"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

const streamed = "{request_header_mode: SEND, response_header_mode: SKIP, request_body_mode: STREAMED}"

func split(targets ...ModelTarget) ModelRule { return ModelRule{Targets: targets} }

func TestInferenceModel_WeightsAreKept(t *testing.T) {
	rules := newModelRules(&Models{Named: map[string]ModelRule{"llama": split(ModelTarget{"v1", 75}, ModelTarget{"v2", 24}, ModelTarget{"v3", 1})}},
		mathrand.New(mathrand.NewPCG(1, 2)).Uint64)
	got := map[string]float64{}
	const requests = 10_000
	for range requests {
		got[rules.target("llama").Name] += 100. / requests
	}
	for name, want := range map[string]float64{"v1": 75, "v2": 24, "v3": 1} {
		if share := got[name]; share < want-1 || share > want+1 {
			t.Errorf("%s has %.2f %%, want %g: %v", name, share, want, got)
		}
	}
	if rules.target("other") != nil || rules.target("") != nil {
		t.Error("another model is replaced")
	}
}

func TestInferenceModel_CriticalityIsThatOfItsRequests(t *testing.T) {
	pool := &pool{Pool: Pool{Criticality: schedule.Standard}}
	pool.rules = newModelRules(&Models{
		Named:      map[string]ModelRule{"a": {Criticality: schedule.Critical}, "b": {Criticality: schedule.Sheddable}, "c": split(ModelTarget{"v", 1})},
		Objectives: map[string]int32{"batch": -5, "live": 7},
	}, mathrand.Uint64)
	asked := func(model, name, value string) int32 {
		return pool.priorityOf(func(header string) []byte {
			if header == name {
				return []byte(value)
			}
			return nil
		}, model)
	}
	for model, want := range map[string]schedule.Criticality{"a": schedule.Critical, "b": schedule.Sheddable, "c": schedule.Standard, "unknown": schedule.Standard, "": schedule.Standard} {
		if got := criticality(asked(model, "", "")); got != want {
			t.Errorf("model %q is %s, want %s", model, got, want)
		}
	}
	for _, header := range []string{objectiveHeader, plainObjectiveHeader} {
		pool.TrustHeaders = false
		if got := asked("a", header, "batch"); got != 1 {
			t.Errorf("%s of a client that is not trusted counts: %d", header, got)
		}
		pool.TrustHeaders = true
		if live, unknown := asked("b", header, "live"), asked("b", header, "nothing"); live != 7 || unknown != -1 {
			t.Errorf("%s: priorities %d and, of an unknown objective, %d", header, live, unknown)
		}
	}
}

// LoRA affinity and the servers' prefixes are those of the target; the client's name is in the header.
func TestInferenceModel_EnvoySendsTheTargetInEveryMode(t *testing.T) {
	modes := map[string]string{"buffered": buffered, "duplex": duplex, "streamed": streamed}
	var routes []route
	for name, mode := range modes {
		routes = append(routes, route{Name: name, Cluster: "closed", Mode: mode, Allow: true})
	}
	g := startGateway(t, routes...)
	setPools(t, g.picker, Pool{Name: "ns/pool", Strategy: "random", Endpoints: g.endpoints()[:1], Body: BodyBuffered,
		Models: &Models{Named: map[string]ModelRule{"public": split(ModelTarget{"a-much-longer-name", 1})}}})
	for mode := range modes {
		for _, size := range []int{0, 300, 200 << 10} {
			sent := fmt.Sprintf(`{"seed":9007199254740993,"model":"public","prompt":"<b>%s"}`, strings.Repeat("x", size))
			response, text := g.post(t, "/"+mode+"/v1/completions", []byte(sent))
			header, got := g.pods[0].received()
			if want := strings.Replace(sent, "public", "a-much-longer-name", 1); response.StatusCode != 200 || string(got) != want {
				t.Errorf("%s, %d bytes: %s %.200s\n%.100s", mode, size, response.Status, text, got)
			}
			if length := header.Get("Content-Length"); length != "" && length != fmt.Sprint(len(got)) {
				t.Errorf("%s: content-length %s of %d", mode, length, len(got))
			}
			if name := header.Get(modelHeader); mode != "streamed" && name != "public" {
				t.Errorf("%s: the header names model %q", mode, name)
			}
		}
	}
	// A chunked body has no length to correct.
	body, err := http.NewRequest(http.MethodPost, g.url+"/duplex/v1/completions", struct{ *strings.Reader }{strings.NewReader(`{"model":"public"}`)})
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(body)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if header, got := g.pods[0].received(); string(got) != `{"model":"a-much-longer-name"}` || header.Get("Content-Length") != "" {
		t.Errorf("%s with %v", got, header)
	}
}

func TestInferenceModel_MetricsAndSpansHaveBothNames(t *testing.T) {
	spans, registry := tracetest.NewSpanRecorder(), prometheus.NewRegistry()
	p := runPicker(t, Config{Tracer: trace.NewTracerProvider(trace.WithSpanProcessor(spans)), Registerer: registry, Protocol: Protocol{Upstream: true}})
	_, address := servePicker(t, p)
	setPools(t, p, Pool{Name: "ns/pool", Strategy: "random", Endpoints: specs("10.0.0.1:80"), Body: BodyBuffered,
		Models: &Models{Named: map[string]ModelRule{"public": split(ModelTarget{"served", 1})}}})
	stream, cancel := call(t, dialPicker(t, address), "x-penstock-pool", "ns/pool", "traceparent", "00-0af7651916cd43dd8448eb211c80319c-00000000000000aa-01")
	headers := headerMessage(nil, ":path", "/v1/completions", ":method", "POST")
	headers.GetRequestHeaders().EndOfStream = false
	headers.ProtocolConfig = &extprocv3.ProtocolConfiguration{RequestBodyMode: filterv3.ProcessingMode_BUFFERED}
	exchange(t, stream, headers)
	exchange(t, stream, &extprocv3.ProcessingRequest{Request: &extprocv3.ProcessingRequest_RequestBody{RequestBody: &extprocv3.HttpBody{Body: []byte(`{"model":"public"}`), EndOfStream: true}}})
	cancel()
	got := map[attribute.Key]string{}
	for _, a := range spans.Ended()[0].Attributes() {
		got[a.Key] = a.Value.String()
	}
	if got["gen_ai.request.model"] != "public" || got["penstock.served_model"] != "served" {
		t.Errorf("span: %v", got)
	}
	if got := gathered(t, registry); got["llm_d_epp_request_total  public 0 served"] != 1 || got["llm_d_epp_scheduler_attempts_total 10.0.0.1 ns 80 success served"] != 1 {
		t.Errorf("metrics: %v", got)
	}
}
