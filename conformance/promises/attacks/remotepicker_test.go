package attacks

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"
)

// hostilePicker is another cluster's picker. It reads a request to its end, and answers by attack.
type hostilePicker struct {
	extprocv3.UnimplementedExternalProcessorServer
	calls  atomic.Int32
	attack atomic.Pointer[func(extprocv3.ExternalProcessor_ProcessServer) error]
}

func (p *hostilePicker) Process(s extprocv3.ExternalProcessor_ProcessServer) error {
	p.calls.Add(1)
	for {
		m, err := s.Recv()
		if err != nil {
			return nil
		}
		if m.GetRequestHeaders().GetEndOfStream() || m.GetRequestBody().GetEndOfStream() {
			return (*p.attack.Load())(s)
		}
	}
}

func (p *hostilePicker) attacks(with func(extprocv3.ExternalProcessor_ProcessServer) error) {
	p.attack.Store(&with)
}

func (p *hostilePicker) listen(s *site) string {
	s.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.Fatal(err)
	}
	server := grpc.NewServer()
	extprocv3.RegisterExternalProcessorServer(server, p)
	go func() { _ = server.Serve(l) }()
	s.Cleanup(server.Stop)
	return l.Addr().String()
}

// serve starts the picker. It returns the objects of an import from the picker's cluster, and of
// route /far to the import.
func (p *hostilePicker) serve(s *site) string {
	s.Helper()
	_, port, _ := net.SplitHostPort(p.listen(s))
	_, pods, _ := net.SplitHostPort(s.server.Listener.Addr().String())
	return fmt.Sprintf(`apiVersion: inference.networking.x-k8s.io/v1alpha1
kind: InferencePoolImport
metadata: {name: far}
status:
  clusters:
  - name: east
    routingMode: EndpointMode
    targetPortNumber: %s
    podCIDRs: [127.0.0.0/8]
    endpointPicker: {service: [{addresses: [127.0.0.1], ports: [{number: %s, appProtocol: kubernetes.io/h2c}]}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: far}
spec:
  parentRefs: [{name: gw}]
  rules:
  - matches: [{path: {value: /far}}]
    backendRefs: [{group: inference.networking.x-k8s.io, kind: InferencePoolImport, name: far}]
`, pods, port)
}

func picks(list string) *extprocv3.ProcessingResponse {
	picked := &extprocv3.HeaderMutation{SetHeaders: []*corev3.HeaderValueOption{
		{Header: &corev3.HeaderValue{Key: "x-gateway-destination-endpoint", RawValue: []byte(list)}},
	}}
	return &extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_RequestHeaders{
		RequestHeaders: &extprocv3.HeadersResponse{Response: &extprocv3.CommonResponse{HeaderMutation: picked}},
	}}
}

// The picker accepts every request and never answers. At most one in ten requests may wait for the
// picker.
func TestRemotePicker_StalledOneCostsOneRequestItsTime(t *testing.T) {
	s := prepare(t, nil)
	p := &hostilePicker{}
	p.attacks(func(stream extprocv3.ExternalProcessor_ProcessServer) error {
		<-stream.Context().Done()
		return nil
	})
	s.Write("far.yaml", p.serve(s))
	s.serve()
	s.attach()
	s.Eventually("the Gateway serves", func() error { return s.ask(http.MethodGet, "/v1/models", "") })
	traffic := s.traffic()
	s.Eventually("the stalled picker is asked", func() error {
		if err := s.ask(http.MethodPost, "/far", "{}"); err == nil || p.calls.Load() == 0 {
			return fmt.Errorf("got %w after %d calls, want an error after at least 1", err, p.calls.Load())
		}
		return nil
	})
	before := p.calls.Load()
	for range 100 {
		if err := s.ask(http.MethodPost, "/far", "{}"); err == nil || !strings.Contains(err.Error(), "503") {
			t.Fatalf("a request for the stalled cluster: got %v, want 503", err)
		}
	}
	if n := p.calls.Load() - before; n > 10 {
		t.Errorf("%d of 100 requests waited for the stalled picker, want at most 10", n)
	}
	traffic.end()
}

func TestRemotePicker_AnswersOfAnySizeCostNoMemory(t *testing.T) {
	s := prepare(t, nil)
	p := &hostilePicker{}
	p.attacks(func(stream extprocv3.ExternalProcessor_ProcessServer) error { return stream.Send(picks("127.0.0.1:1")) })
	s.Write("far.yaml", p.serve(s))
	s.serve()
	s.attach()
	s.Eventually("the Gateway serves", func() error { return s.ask(http.MethodGet, "/v1/models", "") })
	pod := s.server.Listener.Addr().String()
	before := s.rss(s.penstock)
	peak := s.peak(s.penstock)
	traffic := s.traffic()
	junk := bytes.Repeat([]byte("x"), 3<<20)
	small := &corev3.HeaderValueOption{} // two bytes encoded, many more decoded
	changes := picks(pod)
	mutation := changes.GetRequestHeaders().GetResponse().GetHeaderMutation()
	mutation.SetHeaders = append(mutation.SetHeaders, slices.Repeat([]*corev3.HeaderValueOption{small}, 500_000)...)
	for name, attack := range map[string]func(extprocv3.ExternalProcessor_ProcessServer) error{
		"a list of 3 MiB": func(stream extprocv3.ExternalProcessor_ProcessServer) error {
			return stream.Send(picks(strings.Repeat(pod+",", len(junk)/len(pod))))
		},
		"an immediate response of 3 MiB": func(stream extprocv3.ExternalProcessor_ProcessServer) error {
			return stream.Send(&extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_ImmediateResponse{
				ImmediateResponse: &extprocv3.ImmediateResponse{Status: &typev3.HttpStatus{Code: 429}, Body: junk}}})
		},
		"empty changes without number": func(stream extprocv3.ExternalProcessor_ProcessServer) error {
			return stream.Send(changes)
		},
		"the wish for more time, without end": func(stream extprocv3.ExternalProcessor_ProcessServer) error {
			for {
				if err := stream.Send(&extprocv3.ProcessingResponse{
					OverrideMessageTimeout: durationpb.New(100 * time.Hour),
				}); err != nil {
					return err
				}
			}
		},
		"a pick with an endless body": func(stream extprocv3.ExternalProcessor_ProcessServer) error {
			err := stream.Send(picks(pod))
			for err == nil {
				body := &extprocv3.BodyMutation{Mutation: &extprocv3.BodyMutation_Body{Body: junk[:512<<10]}}
				err = stream.Send(&extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_RequestBody{
					RequestBody: &extprocv3.BodyResponse{Response: &extprocv3.CommonResponse{BodyMutation: body}},
				}})
			}
			return err
		},
	} {
		p.attacks(attack)
		for range 50 {
			_ = s.ask(http.MethodPost, "/far", `{"model":"m"}`) // 200 and 503 are both correct
		}
		t.Logf("%s: done", name)
	}
	traffic.end()
	if most := peak(); most > before+128 {
		t.Errorf("resident memory rose from %.0f to %.0f MiB, want at most %.0f", before, most, before+128)
	}
}

// Envoy calls the pool's external picker directly. The picker's messages must be bounded, too.
func TestExternalPicker_LargeMessagesFailOnePickAlone(t *testing.T) {
	s := prepare(t, nil)
	p := &hostilePicker{}
	junk := bytes.Repeat([]byte("x"), 3<<20)
	p.attacks(func(stream extprocv3.ExternalProcessor_ProcessServer) error {
		return stream.Send(&extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_ImmediateResponse{
			ImmediateResponse: &extprocv3.ImmediateResponse{Status: &typev3.HttpStatus{Code: 429}, Body: junk}}})
	})
	_, port, _ := net.SplitHostPort(p.listen(s))
	s.Write("own.yaml",
		strings.Replace(poolObjects("own", "/own", []string{"gw"}, at(s.server)), "targetPorts: [{number: 8000}]}",
			"targetPorts: [{number: 8000}], endpointPickerRef: {name: own-picker, port: {number: "+port+
				"}, failureMode: FailClose}}", 1)+fmt.Sprintf(`apiVersion: v1
kind: Service
metadata: {name: own-picker}
spec: {ports: [{port: %[1]s, appProtocol: kubernetes.io/h2c}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: own-picker, labels: {kubernetes.io/service-name: own-picker}}
addressType: IPv4
ports: [{port: %[1]s}]
endpoints: [{addresses: [127.0.0.1]}]
`, port))
	s.serve()
	s.attach()
	s.Eventually("the Gateway serves", func() error { return s.ask(http.MethodGet, "/v1/models", "") })
	s.Eventually("the picker is asked", func() error {
		_ = s.ask(http.MethodPost, "/own", "{}")
		if p.calls.Load() == 0 {
			return errors.New("no call")
		}
		return nil
	})
	before, most := s.rss(s.envoy), s.peak(s.envoy)
	traffic := s.traffic()
	for i := range 50 {
		if err := s.ask(http.MethodPost, "/own", "{}"); err == nil || strings.Contains(err.Error(), "429") {
			t.Fatalf("pick %d, whose answer has 3 MiB: %v, want it failed", i, err)
		}
	}
	traffic.end()
	if m := most(); m > before+96 {
		t.Errorf("resident memory of Envoy rose from %.0f to %.0f MiB, want at most %.0f", before, m, before+96)
	}
}
