package principals

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
)

const cellHeader = "x-cell"

// echo is a request as the author's server received it. The server returns it as the response's
// body.
type echo struct {
	Method, Path, Body string
	Headers            map[string]string
}

func echoServer(t testing.TB, host string) *httptest.Server {
	t.Helper()
	l, err := net.Listen("tcp", host+":0")
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/metrics" {
			_, _ = io.WriteString(w, pages[0])
			return
		}
		body, _ := io.ReadAll(r.Body)
		e := echo{Method: r.Method, Path: r.URL.Path, Body: string(body), Headers: map[string]string{"host": r.Host}}
		for name, values := range r.Header {
			e.Headers[strings.ToLower(name)] = strings.Join(values, ",")
		}
		_ = json.NewEncoder(w).Encode(e)
	}))
	_ = s.Listener.Close()
	s.Config.ReadTimeout = 2 * time.Second // ends the wait for a body that is too short
	s.Listener = l
	s.Start()
	t.Cleanup(s.Close)
	return s
}

// hostilePicker answers each request with the request's cell.
type hostilePicker struct {
	extprocv3.UnimplementedExternalProcessorServer
	healthv1.UnimplementedHealthServer
	health   atomic.Pointer[healthv1.HealthCheckResponse]
	checks   atomic.Int64
	endpoint string // of the author's server
	victim   string
	fields   map[string]field
	t        testing.TB

	mu    sync.Mutex
	cells map[string]cell // by the value of cellHeader
}

// Process picks for headers, returns bodies unchanged, and sends nothing for a response.
func (p *hostilePicker) Process(s extprocv3.ExternalProcessor_ProcessServer) error {
	var c cell
	for {
		m, err := s.Recv()
		if err != nil {
			return nil
		}
		var answers []*extprocv3.ProcessingResponse
		switch {
		case m.GetRequestHeaders() != nil:
			for _, h := range m.GetRequestHeaders().GetHeaders().GetHeaders() {
				if h.GetKey() == cellHeader {
					p.mu.Lock()
					c = p.cells[string(h.GetRawValue())]
					p.mu.Unlock()
				}
			}
			answers = p.headers(c)
		case m.GetRequestBody() != nil:
			answers = p.with(c, "request_body", bodyBack(m.GetRequestBody()))
		case m.GetResponseHeaders() != nil:
			response := &extprocv3.HeadersResponse{}
			if strings.HasSuffix(c.field, ".content_length.response") {
				setLength(response, numerals[c.value])
			}
			answers = p.with(c, "response_headers", &extprocv3.ProcessingResponse{
				Response: &extprocv3.ProcessingResponse_ResponseHeaders{ResponseHeaders: response},
			})
		case m.GetRequestTrailers() != nil:
			answers = []*extprocv3.ProcessingResponse{{Response: &extprocv3.ProcessingResponse_RequestTrailers{
				RequestTrailers: &extprocv3.TrailersResponse{},
			}}}
		}
		for _, a := range answers {
			if s.Send(a) != nil {
				return nil
			}
		}
	}
}

func (p *hostilePicker) Check(context.Context, *healthv1.HealthCheckRequest) (*healthv1.HealthCheckResponse, error) {
	p.checks.Add(1)
	return p.health.Load(), nil
}

// headers returns the answers to a request's headers: a pick, and the cell if it concerns this
// phase or no phase.
func (p *hostilePicker) headers(c cell) []*extprocv3.ProcessingResponse {
	pick := p.pick(p.endpoint)
	if c.field == "" {
		return []*extprocv3.ProcessingResponse{pick}
	}
	_, steps := split(c.field)
	switch steps[0] {
	case "endpoint":
		list := map[value]string{
			zero: "", maximum: strings.Repeat(p.endpoint+",", 64) + p.endpoint,
			overflow: "1.2.3.4:99999", anothersName: p.victim,
		}
		return []*extprocv3.ProcessingResponse{p.pick(list[c.value])}
	case "content_length":
		if steps[1] == "request" {
			setLength(pick.GetRequestHeaders(), numerals[c.value])
		}
		return []*extprocv3.ProcessingResponse{pick}
	case "request_body", "response_headers":
		return []*extprocv3.ProcessingResponse{pick}
	case "request_headers", "dynamic_metadata", "mode_override":
		return p.with(c, steps[0], pick)
	case "immediate_response":
		immediate := &extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_ImmediateResponse{
			ImmediateResponse: &extprocv3.ImmediateResponse{
				Status: &typev3.HttpStatus{Code: http.StatusTooManyRequests},
			},
		}}
		return p.with(c, steps[0], immediate)
	}
	return append(p.with(c, steps[0], &extprocv3.ProcessingResponse{}), pick)
}

// with returns the answer a. It sets the cell's value if the cell concerns the answer's phase.
func (p *hostilePicker) with(c cell, phase string, a *extprocv3.ProcessingResponse) []*extprocv3.ProcessingResponse {
	if c.field == "" {
		return []*extprocv3.ProcessingResponse{a}
	}
	if _, steps := split(c.field); steps[0] == phase {
		out := proto.Clone(a).(*extprocv3.ProcessingResponse)
		another := func(class) string { return ":authority" }
		setProto(p.t, out.ProtoReflect(), steps, c.value, another, p.fields[c.field].class)
		return []*extprocv3.ProcessingResponse{out}
	}
	return []*extprocv3.ProcessingResponse{a}
}

func setLength(response *extprocv3.HeadersResponse, length string) {
	if response.Response == nil {
		response.Response = &extprocv3.CommonResponse{}
	}
	if response.Response.HeaderMutation == nil {
		response.Response.HeaderMutation = &extprocv3.HeaderMutation{}
	}
	response.Response.HeaderMutation.SetHeaders = append(response.Response.HeaderMutation.SetHeaders,
		&corev3.HeaderValueOption{
			Header:       &corev3.HeaderValue{Key: "content-length", RawValue: []byte(length)},
			AppendAction: corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD,
		})
}

func (p *hostilePicker) pick(list string) *extprocv3.ProcessingResponse {
	const name = "x-gateway-destination-endpoint"
	metadata, _ := structpb.NewStruct(map[string]any{"envoy.lb": map[string]any{name: list}}) // cannot fail: texts
	set := []*corev3.HeaderValueOption{{Header: &corev3.HeaderValue{Key: name, RawValue: []byte(list)}}}
	response := &extprocv3.CommonResponse{HeaderMutation: &extprocv3.HeaderMutation{SetHeaders: set}}
	return &extprocv3.ProcessingResponse{
		DynamicMetadata: metadata,
		Response: &extprocv3.ProcessingResponse_RequestHeaders{
			RequestHeaders: &extprocv3.HeadersResponse{Response: response},
		},
	}
}

func bodyBack(b *extprocv3.HttpBody) *extprocv3.ProcessingResponse {
	same := &extprocv3.StreamedBodyResponse{Body: b.GetBody(), EndOfStream: b.GetEndOfStream()}
	mutation := &extprocv3.BodyMutation{Mutation: &extprocv3.BodyMutation_StreamedResponse{StreamedResponse: same}}
	return &extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_RequestBody{
		RequestBody: &extprocv3.BodyResponse{Response: &extprocv3.CommonResponse{BodyMutation: mutation}},
	}}
}

type pickers struct {
	*run
	picker *hostilePicker
	base   map[string]seen // key: "relayed" or "asked"
}

func newPickers(t testing.TB) *pickers {
	t.Helper()
	server := echoServer(t, "127.0.66.1")
	p := &hostilePicker{
		t: t, endpoint: server.Listener.Addr().String(), fields: map[string]field{}, cells: map[string]cell{},
	}
	for _, f := range remotePicker.fields(t) {
		p.fields[f.path] = f
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	grpcServer := grpc.NewServer()
	extprocv3.RegisterExternalProcessorServer(grpcServer, p)
	healthv1.RegisterHealthServer(grpcServer, p)
	p.health.Store(&healthv1.HealthCheckResponse{Status: healthv1.HealthCheckResponse_SERVING})
	go func() { _ = grpcServer.Serve(l) }() // ends with Stop
	t.Cleanup(grpcServer.Stop)
	_, port, _ := net.SplitHostPort(p.endpoint)
	_, picker, _ := net.SplitHostPort(l.Addr().String())
	r := start(t, map[string]string{"pickers.yaml": pickerObjects(port, picker)})
	p.victim = r.server.Listener.Addr().String()
	return &pickers{run: begin(t, r, remotePicker), picker: p, base: map[string]seen{}}
}

// pickerObjects returns an import whose picker Penstock calls, and a pool whose picker Envoy calls.
func pickerObjects(port, picker string) string {
	route := func(host, kind, group string) string {
		return fmt.Sprintf(`apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: %[1]s, namespace: mine}
spec:
  parentRefs: [{name: gw, namespace: infra, sectionName: http}]
  hostnames: [%[1]s.test]
  rules: [{backendRefs: [{group: %[3]s, kind: %[2]s, name: %[1]s}]}]
---
`, host, kind, group)
	}
	routes := route("relayed", "InferencePoolImport", "inference.networking.x-k8s.io") +
		route("asked", "InferencePool", "inference.networking.k8s.io")
	return routes + fmt.Sprintf(`apiVersion: inference.networking.x-k8s.io/v1alpha1
kind: InferencePoolImport
metadata: {name: relayed, namespace: mine}
status:
  clusters:
  - name: mine
    routingMode: EndpointMode
    targetPortNumber: %[1]s
    podCIDRs: [127.0.66.0/24]
    endpointPicker:
      service: [{addresses: [127.0.0.1], ports: [{number: %[2]s, appProtocol: kubernetes.io/h2c}]}]
      health: {port: %[2]s}
---
apiVersion: inference.networking.k8s.io/v1
kind: InferencePool
metadata: {name: asked, namespace: mine}
spec:
  selector: {matchLabels: {app: mine}}
  targetPorts: [{number: %[1]s}]
  endpointPickerRef: {name: picker, port: {number: %[2]s}, failureMode: FailClose}
---
apiVersion: penstock.dev/v1alpha1
kind: ModelServers
metadata: {name: mine, namespace: mine, labels: {app: mine}}
spec: {servers: [{address: 127.0.66.1, ports: [%[1]s]}]}
---
apiVersion: v1
kind: Service
metadata: {name: picker, namespace: mine}
spec: {ports: [{port: %[2]s, appProtocol: kubernetes.io/h2c}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: picker, namespace: mine, labels: {kubernetes.io/service-name: picker}}
addressType: IPv4
ports: [{port: %[2]s}]
endpoints: [{addresses: [127.0.0.1]}]
`, port, picker)
}

// seen is a response as its client receives it.
type seen struct {
	status  int
	headers map[string]string
	body    string
	err     error
}

func (p *pickers) play() {
	p.t.Helper()
	for _, by := range []string{"relayed", "asked"} {
		p.rig.Eventually(by+" is served", func() error {
			p.base[by] = p.rig.send(by+".test", nil, body)
			if p.base[by].status != http.StatusOK {
				return fmt.Errorf("got %+v, want 200", p.base[by])
			}
			return nil
		})
	}
	ends := []func(){p.rig.beside(p.honest("relayed")), p.rig.beside(p.honest("asked"))}
	for i, c := range p.cells() {
		by, steps := split(c.field)
		if by == "health" {
			p.sick(c, steps)
			continue
		}
		id := fmt.Sprint(i)
		p.picker.mu.Lock()
		p.picker.cells[id] = c
		p.picker.mu.Unlock()
		s := p.rig.send(by+".test", map[string]string{cellHeader: id}, body)
		if p.judge(c, p.base[by], s); s.status != http.StatusOK {
			p.rig.Eventually("the picker is asked again after "+c.String(), func() error {
				if s := p.rig.send(by+".test", nil, body); s.status != http.StatusOK {
					return fmt.Errorf("got %+v, want 200", s)
				}
				return nil
			})
		}
	}
	p.rig.settle("none.yaml", "")
	p.rig.harmless("the answers of the picker")
	for _, end := range ends {
		end()
	}
	p.end()
}

// sick makes the picker of the import relayed report the cell's health, and sends a request.
func (p *pickers) sick(c cell, steps []string) {
	p.t.Helper()
	own := p.rig.status().about("mine", "relayed")
	response := &healthv1.HealthCheckResponse{Status: healthv1.HealthCheckResponse_SERVING}
	setProto(p.t, response.ProtoReflect(), steps, c.value, nil, p.picker.fields[c.field].class)
	p.picker.health.Store(response)
	before := p.picker.checks.Load()
	p.rig.Eventually("the picker's health is asked for", func() error {
		if n := p.picker.checks.Load() - before; n < 1 {
			return fmt.Errorf("%d checks, want 1", n)
		}
		return nil
	})
	s := p.rig.send("relayed.test", nil, body)
	found := without(p.rig.status().about("mine", "relayed"), own)
	switch {
	case len(found) > 0:
		p.saw(c, finding, strings.Join(found, "; "))
	case s.status == http.StatusOK:
		p.saw(c, bounded, "the pool is served")
	default:
		p.saw(c, silent, fmt.Sprintf("%d %.100s", s.status, s.body))
	}
}

const body = `{"model":"mine","messages":[{"role":"user","content":"hello"}]}`

// honest returns a function that sends a request of another client. While Penstock does not use the
// picker, 503 is correct, but the request must arrive unchanged.
func (p *pickers) honest(by string) func() error {
	return func() error {
		s := p.rig.send(by+".test", nil, body)
		var e echo
		if s.status == http.StatusOK &&
			(json.Unmarshal([]byte(s.body), &e) != nil || e.Method != http.MethodPost || e.Body != body) {
			return fmt.Errorf("the server got %.40s %s, and the answer is %.100s, want the request unchanged", e.Method,
				e.Path, s.body)
		}
		return nil
	}
}

func (p *pickers) judge(c cell, base, s seen) {
	p.t.Helper()
	own, difference := strings.Contains(s.body, `"Method"`), base.differs(s)
	switch {
	case strings.Contains(s.body, victimReply):
		p.saw(c, harmful, "the victim's server has answered")
	case own && !strings.Contains(s.body, `"Method":"POST"`):
		p.saw(c, harmful, "the server reads the end of another request's body in front of it: "+s.body)
	case s.err == nil && difference == "":
		p.saw(c, denied, "it has no effect")
	case own, s.status == http.StatusTooManyRequests:
		p.saw(c, bounded, difference)
	default:
		p.saw(c, denied, difference)
	}
}

func (r *rig) send(host string, headers map[string]string, body string) (s seen) {
	url := "http://" + local(r.gateway["http"]) + "/v1/chat/completions"
	req, err := http.NewRequestWithContext(r.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return seen{err: err}
	}
	req.Host = host
	for name, value := range headers {
		req.Header[name] = []string{value}
	}
	resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		return seen{err: err}
	}
	defer func() { _ = resp.Body.Close() }()
	s.status, s.headers = resp.StatusCode, map[string]string{}
	for name, values := range resp.Header {
		s.headers[strings.ToLower(name)] = strings.Join(values, ",")
	}
	raw, err := io.ReadAll(io.LimitReader(resp.Body, 64<<20))
	s.body, s.err = string(raw), err
	return s
}

var varies = []string{
	"x-request-id", cellHeader, "date", "x-envoy-upstream-service-time", "content-length", "x-forwarded-for",
	"traceparent",
}

func (s seen) differs(o seen) string {
	if o.err != nil || s.status != o.status {
		return fmt.Sprintf("status %d, %.200s, %v, reason %s", o.status, o.body, o.err, o.headers["x-penstock-reason"])
	}
	var before, after echo
	if json.Unmarshal([]byte(s.body), &before) != nil || json.Unmarshal([]byte(o.body), &after) != nil {
		return fmt.Sprintf("the answer is %.200s", o.body)
	}
	for _, headers := range []map[string]string{s.headers, o.headers, before.Headers, after.Headers} {
		for _, name := range varies {
			delete(headers, name)
		}
	}
	switch {
	case !maps.Equal(s.headers, o.headers):
		return fmt.Sprintf("the answer has the headers %.500s", changes(s.headers, o.headers))
	case !maps.Equal(before.Headers, after.Headers):
		return fmt.Sprintf("the server gets the headers %.500s", changes(before.Headers, after.Headers))
	case before.Body != after.Body, before.Path != after.Path, before.Method != after.Method:
		return fmt.Sprintf("the server gets %s %s %.200s", after.Method, after.Path, after.Body)
	}
	return ""
}

func changes(before, now map[string]string) (out []string) {
	for _, name := range slices.Sorted(maps.Keys(now)) {
		if v, ok := before[name]; !ok || v != now[name] {
			out = append(out, fmt.Sprintf("%s: %.100s", name, now[name]))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(before)) {
		if _, ok := now[name]; !ok {
			out = append(out, "-"+name)
		}
	}
	return out
}
