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

// Each target gets its share of the requests from every starting position of a picker, and in every
// run of consecutive requests.
func TestInferenceModel_WeightsAreKept(t *testing.T) {
	for _, weights := range [][]int32{{75, 24, 1}, {1, 1}, {1, 999_999}, {3, 3, 3, 1}} {
		var targets []ModelTarget
		sum := 0.
		for i, w := range weights {
			targets, sum = append(targets, ModelTarget{fmt.Sprint("v", i), w}), sum+float64(w)
		}
		for range 20 {
			rules := newModelRules(&Models{Named: map[string]ModelRule{"llama": split(targets...)}}, mathrand.Uint64)
			for _, requests := range []int{100, 10_000} {
				got := map[string]int{}
				for range requests {
					got[rules.target("llama").Name]++
				}
				for i, w := range weights {
					want := float64(requests) * float64(w) / sum
					if n := float64(got[targets[i].Name]); n < want-10 || n > want+10 {
						t.Errorf("weights %v, %d requests: %s has %g, want %g", weights, requests, targets[i].Name, n,
							want)
					}
				}
			}
			if rules.target("other") != nil || rules.target("") != nil {
				t.Error("another model is replaced")
			}
		}
	}
}

func TestInferenceModel_CriticalityIsThatOfItsRequests(t *testing.T) {
	pool := &pool{Pool: Pool{Criticality: schedule.Standard}}
	pool.rules = newModelRules(&Models{
		Named: map[string]ModelRule{"a": {Criticality: schedule.Critical}, "b": {Criticality: schedule.Sheddable},
			"c": split(ModelTarget{"v", 1})},
		Objectives: map[string]int32{"batch": -5, "live": 7},
	}, mathrand.Uint64)
	asked := func(model, name, value string) int32 {
		return pool.priorityOf(pool.trustsHeaders, func(header string) []byte {
			if header == name {
				return []byte(value)
			}
			return nil
		}, model)
	}
	for model, want := range map[string]schedule.Criticality{
		"a": schedule.Critical, "b": schedule.Sheddable, "c": schedule.Standard, "unknown": schedule.Standard,
		"": schedule.Standard,
	} {
		if got := criticality(asked(model, "", "")); got != want {
			t.Errorf("model %q is %s, want %s", model, got, want)
		}
	}
	for _, header := range []string{objectiveHeader, plainObjectiveHeader} {
		pool.TrustHeaders = false
		if got := asked("a", header, "batch"); got != 1 {
			t.Errorf("%s of a client that is not trusted counts: got %d, want 1", header, got)
		}
		pool.TrustHeaders = true
		if live, unknown := asked("b", header, "live"), asked("b", header, "nothing"); live != 7 || unknown != -1 {
			t.Errorf("%s: priorities %d and, of an unknown objective, %d, want 7 and %d", header, live, unknown, -1)
		}
	}
}

// LoRA affinity and cached prefixes use the target's name, and the server gets it in every body
// mode. The header has the client's model.
func TestInferenceModel_EnvoySendsTheTargetInEveryMode(t *testing.T) {
	modes := map[string]string{"buffered": buffered, "duplex": duplex, "streamed": streamed}
	var routes []route
	for name, mode := range modes {
		routes = append(routes, route{Name: name, Cluster: "closed", Mode: mode, Allow: true})
	}
	g := startGateway(t, routes...)
	setPools(t, g.picker,
		Pool{ID: poolID("ns/pool"), Strategy: "random", Endpoints: g.endpoints()[:1], Body: BodyBuffered,
			Models: &Models{Named: map[string]ModelRule{"public": split(ModelTarget{"a-much-longer-name", 1})}}})
	for mode := range modes {
		for _, size := range []int{0, 300, 200 << 10} {
			sent := fmt.Sprintf(`{"seed":9007199254740993,"model":"public","prompt":"<b>%s"}`,
				strings.Repeat("x", size))
			response, text := g.post(t, "/"+mode+"/v1/completions", []byte(sent))
			header, got := g.pods[0].received()
			if want := strings.Replace(sent, "public", "a-much-longer-name", 1); response.StatusCode != 200 ||
				string(got) != want {
				t.Errorf("%s, %d bytes: got %s %.200s\n%.100s\nwant 200 and %.100s",
					mode, size, response.Status, text, got, want)
			}
			if length := header.Get("Content-Length"); length != "" && length != fmt.Sprint(len(got)) {
				t.Errorf("%s: content-length %s, want %d", mode, length, len(got))
			}
			if name := header.Get(modelHeader); mode != "streamed" && name != "public" {
				t.Errorf("%s: the header names model %q, want public", mode, name)
			}
		}
	}
	// A chunked body has no content-length to correct.
	body, err := http.NewRequest(http.MethodPost, g.url+"/duplex/v1/completions",
		struct{ *strings.Reader }{strings.NewReader(`{"model":"public"}`)})
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(body)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if header, got := g.pods[0].received(); string(got) != `{"model":"a-much-longer-name"}` ||
		header.Get("Content-Length") != "" {
		t.Errorf("got %s with %v, want the longer model, without content-length", got, header)
	}
}

// The model is replaced in every encoding of JSON that a model server in Python reads.
func TestInferenceModel_NoEncodingHidesTheModel(t *testing.T) {
	modes := map[string]string{"buffered": buffered, "duplex": duplex, "streamed": streamed}
	var routes []route
	for name, mode := range modes {
		routes = append(routes, route{Name: name, Cluster: "closed", Mode: mode, Allow: true})
	}
	g := startGateway(t, routes...)
	setPools(t, g.picker,
		Pool{ID: poolID("ns/pool"), Strategy: "random", Endpoints: g.endpoints()[:1], Body: BodyBuffered,
			Models: &Models{Named: map[string]ModelRule{"public": split(ModelTarget{"v1", 1}, ModelTarget{"v2", 1})}}})
	const mark = "\xef\xbb\xbf"
	for mode := range modes {
		for range 8 {
			response, text := g.post(t, "/"+mode+"/v1/completions",
				[]byte(mark+`{"model":"public","x":1,"model":"public"}`))
			_, got := g.pods[0].received()
			one, two := mark+`{"model":"v1","x":1,"model":"v1"}`, mark+`{"model":"v2","x":1,"model":"v2"}`
			if response.StatusCode != 200 || string(got) != one && string(got) != two {
				t.Errorf("%s: got %s %s, the server got %q; want 200 and one target in both members",
					mode, response.Status, text, got)
			}
		}
		if response, text := g.post(t, "/"+mode+"/v1/completions",
			[]byte("{\x00\"\x00m\x00o\x00d\x00e\x00l\x00\"\x00:\x001\x00}\x00")); response.StatusCode != 400 {
			t.Errorf("%s: UTF-16 is answered %s %s, want 400", mode, response.Status, text)
		}
	}
}

// In STREAMED the pick precedes the body, so the model in the header counts only with TrustHeaders.
func TestInferenceModel_ModelOfAHeaderCountsWhereHeadersAreTrusted(t *testing.T) {
	for _, trusted := range []bool{false, true} {
		registry := prometheus.NewRegistry()
		p := runPicker(t, Config{Registerer: registry, Protocol: Protocol{Upstream: true}})
		_, address := servePicker(t, p)
		setPools(t, p,
			Pool{ID: poolID("ns/pool"), Strategy: "random", Endpoints: specs("10.0.0.1:80"), Body: BodyBuffered,
				TrustHeaders: trusted,
				Models: &Models{
					Named: map[string]ModelRule{
						"gold": {Criticality: schedule.Critical, Targets: []ModelTarget{{"served", 1}}},
					},
				}})
		stream, cancel := call(t, dialPicker(t, address), "x-penstock-pool", "ns/pool")
		headers := headerMessage(nil, ":path", "/v1/completions", ":method", "POST", modelHeader, "gold")
		headers.GetRequestHeaders().EndOfStream = false
		headers.ProtocolConfig = &extprocv3.ProtocolConfiguration{RequestBodyMode: filterv3.ProcessingMode_STREAMED}
		exchange(t, stream, headers)
		cancel()
		critical := 0.
		for name, n := range gathered(t, registry) {
			if strings.HasPrefix(name, "llm_d_epp_request_total") && strings.Contains(name, " 1 ") {
				critical += n
			}
		}
		if (critical == 1) != trusted {
			t.Errorf("trusted %t: %g requests are critical, want 1 if trusted, else 0: %v",
				trusted, critical, gathered(t, registry))
		}
	}
}

func TestInferenceModel_MetricsAndSpansHaveBothNames(t *testing.T) {
	spans, registry := tracetest.NewSpanRecorder(), prometheus.NewRegistry()
	p := runPicker(t,
		Config{Tracer: trace.NewTracerProvider(trace.WithSpanProcessor(spans)), Registerer: registry,
			Protocol: Protocol{Upstream: true}})
	_, address := servePicker(t, p)
	setPools(t, p, Pool{ID: poolID("ns/pool"), Strategy: "random", Endpoints: specs("10.0.0.1:80"), Body: BodyBuffered,
		Models: &Models{Named: map[string]ModelRule{"public": split(ModelTarget{"served", 1})}}})
	stream, cancel := call(t, dialPicker(t, address), "x-penstock-pool", "ns/pool", "traceparent",
		"00-0af7651916cd43dd8448eb211c80319c-00000000000000aa-01")
	headers := headerMessage(nil, ":path", "/v1/completions", ":method", "POST")
	headers.GetRequestHeaders().EndOfStream = false
	headers.ProtocolConfig = &extprocv3.ProtocolConfiguration{RequestBodyMode: filterv3.ProcessingMode_BUFFERED}
	exchange(t, stream, headers)
	exchange(t, stream, &extprocv3.ProcessingRequest{
		Request: &extprocv3.ProcessingRequest_RequestBody{
			RequestBody: &extprocv3.HttpBody{Body: []byte(`{"model":"public"}`), EndOfStream: true},
		},
	})
	cancel()
	got := map[attribute.Key]string{}
	for _, a := range spans.Ended()[0].Attributes() {
		got[a.Key] = a.Value.String()
	}
	if got["gen_ai.request.model"] != "public" || got["penstock.served_model"] != "served" {
		t.Errorf("span: got %v, want request model public, served model served", got)
	}
	if got := gathered(t, registry); got["llm_d_epp_request_total  public 0 served"] != 1 ||
		got["llm_d_epp_scheduler_attempts_total 10.0.0.1 ns 80 success served"] != 1 {
		t.Errorf("metrics: got %v, want one request for public and one attempt, by served", got)
	}
}
