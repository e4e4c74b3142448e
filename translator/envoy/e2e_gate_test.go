package envoy

import (
	"encoding/binary"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	statusv1 "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/penstock-project/penstock/translator/model"
)

// gateServer is an authorization service. The name of the first policy selects its faulty answer.
type gateServer struct{ t *testing.T }

func (g gateServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var in authv3.CheckRequest
	if err != nil || len(body) < 5 || proto.Unmarshal(body[5:], &in) != nil {
		g.t.Errorf("the service receives %q %v, want a CheckRequest", body, err)
		return
	}
	policies := strings.Split(in.GetAttributes().GetContextExtensions()["policies"], ",")
	w.Header().Set("Content-Type", "application/grpc")
	w.Header().Set("Trailer", "Grpc-Status")
	end := func(code, frame string) {
		_, _ = io.WriteString(w, frame)
		w.Header().Set("Grpc-Status", code)
	}
	ok := &authv3.CheckResponse{Status: &statusv1.Status{}, HttpResponse: &authv3.CheckResponse_OkResponse{
		OkResponse: &authv3.OkHttpResponse{HeadersToRemove: []string{"authorization"}},
	}}
	decided := func(names ...string) *structpb.Struct {
		var list []any
		for _, n := range names {
			list = append(list, n)
		}
		s, _ := structpb.NewStruct(map[string]any{"decided": list})
		return s
	}
	switch policies[0] {
	case "html":
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, "<html>")
	case "bad protobuf":
		end("0", frame([]byte("\xff\xff\xff")))
	case "no message":
		end("0", "")
	case "reset":
		panic(http.ErrAbortHandler)
	case "silent":
		<-r.Context().Done()
	case "unavailable":
		end("14", "")
	case "denied by rpc":
		end("7", "")
	case "internal":
		end("13", "")
	case "empty":
		end("0", frame(nil))
	case "unknown fields":
		end("0", frame([]byte("\xfa\x3e\x03abc")))
	case "status 0 and denied":
		out, _ := proto.Marshal(&authv3.CheckResponse{Status: &statusv1.Status{},
			HttpResponse: &authv3.CheckResponse_DeniedResponse{DeniedResponse: &authv3.DeniedHttpResponse{
				Status: &typev3.HttpStatus{Code: typev3.StatusCode_Unauthorized}}}})
		end("0", frame(out))
	case "nothing decided":
		out, _ := proto.Marshal(ok)
		end("0", frame(out))
	case "another decided":
		ok.DynamicMetadata = decided("ns/other", "ns/others")
		out, _ := proto.Marshal(ok)
		end("0", frame(out))
	case "one of two decided":
		ok.DynamicMetadata = decided(policies[0])
		out, _ := proto.Marshal(ok)
		end("0", frame(out))
	case "bad header":
		ok.DynamicMetadata = decided(policies...)
		ok.GetOkResponse().Headers = []*corev3.HeaderValueOption{
			{Header: &corev3.HeaderValue{Key: "x y", Value: "a\nb"}},
		}
		out, _ := proto.Marshal(ok)
		end("0", frame(out))
	case "caller":
		ok.DynamicMetadata = decided(policies...)
		out, _ := proto.Marshal(withCaller(ok))
		end("0", frame(out))
	default:
		ok.DynamicMetadata = decided(policies...)
		out, _ := proto.Marshal(ok)
		end("0", frame(out))
	}
}

func withCaller(ok *authv3.CheckResponse) *authv3.CheckResponse {
	for i, key := range gatedMetadata {
		ok.DynamicMetadata.Fields[key] = structpb.NewStringValue("ns/alice")
		ok.GetOkResponse().Headers = append(ok.GetOkResponse().Headers, overwrite(gatedHeaders[i], "ns/alice"))
	}
	return ok
}

func frame(message []byte) string {
	return string(append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))), message...))
}

var gateCluster = model.Cluster{Name: model.OurGate, Protocol: model.GRPC, Own: true}

func (r *rig) gatedHost(host string, gates ...string) {
	r.t.Helper()
	action := &model.Action{Forward: &model.Forward{
		Backends: []model.WeightedBackend{{Cluster: named("a"), Weight: 1}}}}
	vh, err := VirtualHost(&model.VirtualHost{Chain: r.chain().Name, Host: host, Routes: []model.Route{
		{Name: "gated", Match: prefix("/v1"), Action: action, Gates: gates},
		{Name: "open", Match: prefix("/"), Action: action},
	}})
	if err != nil {
		r.t.Fatal(err)
	}
	r.hosts = append(r.hosts, vh)
}

// A request must pass only if the service's answer has a decision of each policy.
func TestGate_FailsClosed(t *testing.T) {
	t.Parallel()
	a := startPod(t, "a", 200)
	service := (&pod{name: "gate"}).serve(t, gateServer{t})
	r := newRig(t, closedPort(t))
	r.cluster(model.Cluster{Name: named("a"), Protocol: model.HTTP1}, endpoints(a.address)...)
	r.cluster(gateCluster, endpoints(service.address)...)
	cases := map[string]int{
		"html": 503, "bad protobuf": 503, "no message": 503, "reset": 503, "silent": 503, "unavailable": 503,
		"denied by rpc": 503, "internal": 503, "bad header": 500,
		"empty": 403, "unknown fields": 403, "status 0 and denied": 403, "nothing decided": 403, "another decided": 403,
		"one of two decided": 403, "decided": 200,
	}
	for fault := range cases {
		r.gatedHost(hostOf(fault), fault, "ns/second")
	}
	r.start()
	for fault, want := range cases {
		before := a.hits.Load()
		req := r.request("POST", hostOf(fault), "/v1/chat/completions", []byte("{}"))
		req.Header.Set("Authorization", "Bearer secret")
		got, err := r.do(req)
		if err != nil || got.status != want || want != 200 && a.hits.Load() != before {
			t.Errorf("%s: %s %v, want %d", fault, got, err, want)
		}
		if reason := got.header.Get("x-penstock-reason"); want != 200 && reason == "" ||
			want == 503 && reason != "authorization_unavailable" || want == 403 && reason != "denied" {
			t.Errorf("%s: got reason %q, want the one of status %d: %s", fault, reason, want, got.body)
		}
		if got.status == 200 && got.header.Get("Echo-Authorization") != "" {
			t.Errorf("%s: the server receives the key, want it removed", fault)
		}
		if got, err := r.do(r.request("GET", hostOf(fault), "/", nil)); err != nil || got.status != 200 {
			t.Errorf("%s: the open route answers %s %v, want 200", fault, got, err)
		}
	}
}

func hostOf(fault string) string { return strings.ReplaceAll(fault, " ", "-") }

// silentServer acts like a frozen process: it accepts connections, and never answers.
type silentServer struct{ calls atomic.Int64 }

func (s *silentServer) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	s.calls.Add(1)
	<-r.Context().Done()
}

func TestGate_FrozenServerIsEjected(t *testing.T) {
	t.Parallel()
	const requests = 150
	a := startPod(t, "a", 200)
	frozen := &silentServer{}
	r := newRig(t, closedPort(t))
	r.cluster(model.Cluster{Name: named("a"), Protocol: model.HTTP1}, endpoints(a.address)...)
	r.cluster(gateCluster, endpoints((&pod{name: "gate"}).serve(t, gateServer{t}).address,
		(&pod{name: "frozen"}).serve(t, frozen).address)...)
	r.gatedHost("host", "ns/p")
	r.start()
	begin := time.Now()
	for i := range requests {
		if got := r.post(t, "host", nil); got.status != 200 {
			t.Errorf("request %d: got %s, want 200", i, got)
		}
	}
	// The limit is about two calls per second. Without ejection, half of all requests would call
	// the frozen server.
	seconds := int64(time.Since(begin) / time.Second)
	if n := frozen.calls.Load(); n == 0 || n > min(4+4*seconds, requests/3) {
		t.Errorf("of %d requests in %d s, %d calls wait for the frozen server, want about two a second, and one at "+
			"least", requests, seconds, n)
	}
}

func TestGate_FailsClosedWithoutAService(t *testing.T) {
	t.Parallel()
	a := startPod(t, "a", 200)
	for name, endpoint := range map[string][]model.Endpoint{
		"closed port": endpoints(closedPort(t)), "no endpoint": {}, "no cluster": nil,
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, closedPort(t))
			r.cluster(model.Cluster{Name: named("a"), Protocol: model.HTTP1}, endpoints(a.address)...)
			if endpoint != nil {
				r.cluster(gateCluster, endpoint...)
			}
			r.gatedHost("host", "ns/p")
			r.start()
			before := a.hits.Load()
			if got := r.post(t, "host", nil); got.status != 503 || a.hits.Load() != before {
				t.Errorf("got %s, want 503, and no request at the pod", got)
			}
			if got, err := r.do(r.request("GET", "host", "/", nil)); err != nil || got.status != 200 {
				t.Errorf("the open route answers %s %v, want 200", got, err)
			}
		})
	}
}

func TestGate_FollowsTheModelInTheBody(t *testing.T) {
	t.Parallel()
	a := startPod(t, "a", 200)
	service := (&pod{name: "gate"}).serve(t, gateServer{t})
	r := newRig(t, closedPort(t))
	r.cluster(model.Cluster{Name: named("a"), Protocol: model.HTTP1}, endpoints(a.address)...)
	r.cluster(gateCluster, endpoints(service.address)...)
	route := func(name string, gates ...string) model.Route {
		m := prefix("/")
		m.Headers = []model.ValueMatch{{Name: ModelHeader, Value: name}}
		return model.Route{Name: name, Match: m, Gates: gates, Action: &model.Action{
			Forward: &model.Forward{Backends: []model.WeightedBackend{{Cluster: named("a"), Weight: 1}}}}}
	}
	r.host("models", route("shut", "empty"), route("let-in", "decided"), route("open"))
	r.start()
	for name, want := range map[string]int{"shut": 403, "let-in": 200, "open": 200} {
		if got := r.post(t, "models", []byte(`{"model":"`+name+`"}`)); got.status != want {
			t.Errorf("%s: got %s, want %d", name, got, want)
		}
	}
	if got := r.post(t, "models", []byte(`{"model":"none"}`)); got.status != 404 || strings.Contains(got.body, "shut") {
		t.Errorf("a client that no gate has let in learns the names of models, want 404 without them: %s", got.body)
	}
}
