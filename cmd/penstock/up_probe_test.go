package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/penstock-project/penstock/cmd/penstock/internal/sim"
)

// referencePicker reads a request to its end, picks, and serves no health checks. With acknowledges it answers in the order of
// the inference extension's lwepp v1.6.0: each piece of the body on arrival, before the headers, without sending it back.
// Otherwise it follows the protocol.
type referencePicker struct {
	extprocv3.UnimplementedExternalProcessorServer
	pick         string
	acknowledges bool

	mu     sync.Mutex
	paths  []string // of requests that it picked for
	served []string // the endpoints that served, from the headers of responses
}

// record keeps a path or an endpoint for the test.
func (p *referencePicker) record(list *[]string, text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	*list = append(*list, text)
}

// recorded is what was recorded so far.
func (p *referencePicker) recorded() (paths, served []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.paths), slices.Clone(p.served)
}

// serve serves at an address until the test ends or stop is called.
func (p *referencePicker) serve(t *testing.T, address string, options ...grpc.ServerOption) (stop func()) {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer(options...)
	extprocv3.RegisterExternalProcessorServer(s, p)
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Stop)
	return s.Stop
}

func (p *referencePicker) Process(s extprocv3.ExternalProcessor_ProcessServer) error {
	var read []byte
	var path string
	for {
		m, err := s.Recv()
		if err != nil {
			return nil
		}
		var replies []*extprocv3.ProcessingResponse
		switch r := m.Request.(type) {
		case *extprocv3.ProcessingRequest_RequestHeaders:
			for _, h := range r.RequestHeaders.Headers.Headers {
				if h.Key == ":path" {
					path = string(h.RawValue)
				}
			}
			if r.RequestHeaders.EndOfStream {
				p.record(&p.paths, path)
				replies = append(replies, p.headers())
			}
		case *extprocv3.ProcessingRequest_RequestBody:
			read = append(read, r.RequestBody.Body...)
			if r.RequestBody.EndOfStream {
				p.record(&p.paths, path)
				replies = append(replies, p.headers())
			}
			if p.acknowledges || r.RequestBody.EndOfStream {
				replies = append(replies, p.body(read))
			}
		case *extprocv3.ProcessingRequest_ResponseHeaders:
			if lb := m.MetadataContext.GetFilterMetadata()["envoy.lb"]; lb != nil {
				p.record(&p.served, path+" "+lb.Fields["x-gateway-destination-endpoint-served"].GetStringValue())
			}
			replies = append(replies, &extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_ResponseHeaders{
				ResponseHeaders: &extprocv3.HeadersResponse{},
			}})
		}
		for _, reply := range replies {
			if s.Send(reply) != nil {
				return nil
			}
		}
	}
}

func (p *referencePicker) body(read []byte) *extprocv3.ProcessingResponse {
	common := &extprocv3.CommonResponse{}
	if !p.acknowledges {
		common.BodyMutation = &extprocv3.BodyMutation{Mutation: &extprocv3.BodyMutation_StreamedResponse{
			StreamedResponse: &extprocv3.StreamedBodyResponse{Body: read, EndOfStream: true},
		}}
	}
	return &extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_RequestBody{RequestBody: &extprocv3.BodyResponse{Response: common}}}
}

func (p *referencePicker) headers() *extprocv3.ProcessingResponse {
	const key = "x-gateway-destination-endpoint"
	endpoint := &structpb.Struct{Fields: map[string]*structpb.Value{key: structpb.NewStringValue(p.pick)}}
	return &extprocv3.ProcessingResponse{
		Response: &extprocv3.ProcessingResponse_RequestHeaders{RequestHeaders: &extprocv3.HeadersResponse{Response: &extprocv3.CommonResponse{
			HeaderMutation: &extprocv3.HeaderMutation{SetHeaders: []*corev3.HeaderValueOption{
				{Header: &corev3.HeaderValue{Key: key, RawValue: []byte(p.pick)}},
			}},
		}}},
		DynamicMetadata: &structpb.Struct{Fields: map[string]*structpb.Value{"envoy.lb": structpb.NewStructValue(endpoint)}},
	}
}

// Neither kind serves health checks, and nothing in the user's objects distinguishes them.
func TestEndpointPicker_ExternalPickersOfBothBodyModesWork(t *testing.T) {
	t.Parallel()
	first, second := modelServer(t, sim.Config{Name: "pod-1"}), modelServer(t, sim.Config{Name: "pod-2"})
	port, external := freePort(t), freePort(t)
	address := fmt.Sprintf("127.0.0.1:%d", external)
	stop := (&referencePicker{pick: second, acknowledges: true}).serve(t, address)
	s := up(t, withPicker(chatFiles(port, first, second), external))
	picked := func(by string) {
		t.Helper()
		answers(t, local(port), http.StatusOK)
		for range 10 {
			got, err := chat(t.Context(), local(port))
			if err != nil || got.status != http.StatusOK || got.header.Get("x-served-by") != by || !strings.Contains(got.body, "repeat this") {
				t.Fatalf("%d from %q: %s %v", got.status, got.header.Get("x-served-by"), got.body, err)
			}
		}
	}
	picked("pod-2")
	if out := s.penstock("status"); !strings.Contains(out, "does not send them back") {
		t.Errorf("the status does not report it:\n%s", out)
	}

	// A newer release takes its place.
	stop()
	(&referencePicker{pick: first}).serve(t, address)
	eventually(t, "the status does not report it any more", func() error {
		if out := s.penstock("status"); strings.Contains(out, "does not send them back") {
			return fmt.Errorf("it is:\n%s", out)
		}
		return nil
	})
	picked("pod-1")
}

// A picker that waits for bodies would never answer the headers of these alone, and the pool, which fails closed, answer 503.
func TestEndpointPicker_ExternalPickerPicksForStreamsUploadsAndUpgrades(t *testing.T) {
	t.Parallel()
	for name, acknowledges := range map[string]bool{"full duplex": false, "acknowledges": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			first, second := modelServer(t, sim.Config{Name: "pod-1"}), modelServer(t, sim.Config{Name: "pod-2"})
			port, external := freePort(t), freePort(t)
			p := &referencePicker{pick: second, acknowledges: acknowledges}
			p.serve(t, fmt.Sprintf("127.0.0.1:%d", external))
			files := withPicker(chatFiles(port, first, second), external)
			files["pool.yaml"] = strings.Replace(files["pool.yaml"], "{name: epp, ", "{name: epp, failureMode: FailClose, ", 1)
			up(t, files)
			answers(t, local(port), http.StatusOK)
			for _, header := range []http.Header{
				{"Content-Type": {"multipart/form-data; boundary=b"}},
				{"Content-Type": {"application/grpc"}},
				{"Upgrade": {"websocket"}, "Connection": {"upgrade"}},
			} {
				path := "/v1/models?" + url.QueryEscape(fmt.Sprint(header))
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
				defer cancel()
				req, err := http.NewRequestWithContext(ctx, http.MethodPost, local(port)+path, strings.NewReader("body"))
				if err != nil {
					t.Fatal(err)
				}
				req.Header = header
				if header.Get("Upgrade") != "" {
					req.Method, req.Body, req.ContentLength = http.MethodGet, nil, 0
				}
				resp, err := http.DefaultClient.Do(req)
				if err != nil {
					t.Fatalf("%v: %v", header, err)
				}
				_ = resp.Body.Close()
				if by := resp.Header.Get("x-served-by"); by != "pod-2" {
					t.Errorf("%v: %d from %q, want pod-2's answer", header, resp.StatusCode, by)
				}
				eventually(t, "the picker gets the headers of the response", func() error {
					paths, served := p.recorded()
					if !slices.Contains(paths, path) || !slices.Contains(served, path+" "+second) {
						return fmt.Errorf("%v: it picked for %q and has the responses %q", header, paths, served)
					}
					return nil
				})
			}
		})
	}
}

// withPicker adds an external picker at a port of this machine to the pool "chat".
func withPicker(files map[string]string, port int) map[string]string {
	files["pool.yaml"] = strings.TrimSuffix(poolYAML("chat"), "\n") + fmt.Sprintf("\n  endpointPickerRef: {name: epp, port: {number: %d}}\n", port)
	files["picker.yaml"] = fmt.Sprintf(`apiVersion: v1
kind: Service
metadata: {name: epp}
spec:
  selector: {app: epp}
  ports: [{port: %d, appProtocol: kubernetes.io/h2c}]
---
`, port) + serversYAML("epp", fmt.Sprintf("127.0.0.1:%d", port))
	return files
}

// A process starts without knowledge of pickers. It must probe them before it configures how Envoy calls them.
func TestEndpointPicker_RestartKeepsTheBodyMode(t *testing.T) {
	t.Parallel()
	pod := modelServer(t, sim.Config{Name: "pod-1"})
	port, external := freePort(t), freePort(t)
	(&referencePicker{pick: pod, acknowledges: true}).serve(t, fmt.Sprintf("127.0.0.1:%d", external))
	s := prepare(t, withPicker(chatFiles(port, pod), external))
	s.run("serve", "--picker", "127.0.0.1:0")
	s.attach(s.ads())
	answers(t, local(port), http.StatusOK)
	requests := sendTraffic(t, local(port))
	for range 3 {
		if code := s.stop(); code != 0 {
			t.Errorf("serve ended with exit status %d", code)
		}
		s.run("serve", "--picker", "127.0.0.1:0")
		s.errs.expect(t, "msg=\"proxy connected\"")
		requests.flows(t, 20)
	}
	requests.end(t)
}
