package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/protobuf/types/known/structpb"
)

func mutual(t *testing.T, cert, key, clients []byte) grpc.ServerOption {
	t.Helper()
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(clients)
	return grpc.Creds(
		credentials.NewTLS(&tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: trusted,
			ClientAuth: tls.RequireAndVerifyClientCert}))
}

func pickerPolicy(ca []byte) string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: ca}\ndata:\n  ca.crt: |\n    " +
		strings.ReplaceAll(string(ca), "\n", "\n    ") + `
---
apiVersion: gateway.networking.k8s.io/v1
kind: BackendTLSPolicy
metadata: {name: picker}
spec:
  targetRefs: [{group: inference.networking.x-k8s.io, kind: InferencePoolImport, name: far, sectionName: east.picker}]
  validation: {hostname: epp.example, caCertificateRefs: [{group: "", kind: ConfigMap, name: ca}]}
`
}

// A remote picker reads every prompt, so its certificate is verified, whether Envoy calls it or the
// local picker relays.
func TestBackendTLSPolicy_RemotePickerIsVerifiedAndTheGatewaysCertificatePresented(t *testing.T) {
	t.Parallel()
	for name, endpoints := range map[string]string{
		"Envoy asks": "endpoints: [{address: 127.0.0.1}]", "our picker asks": "podCIDRs: [127.0.0.0/8]",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cert, key := certificate(t, "epp.example")
			own, ownKey := certificate(t, "gateway.example")
			server := serverNamed(t, "east-1")
			port, external := freePort(t), freePort(t)
			serve := func() (stop func()) {
				return (&namingPicker{pick: server}).serve(t, fmt.Sprintf("127.0.0.1:%d", external),
					mutual(t, cert, key, own))
			}
			stop := serve()
			files := chatFiles(port, serverNamed(t, "here-1"))
			files["gateway.yaml"] += "  tls: {backend: {clientCertificateRef: {name: own}}}\n"
			files["own.yaml"] = secretYAML("own", own, ownKey)
			_, serverPort, _ := net.SplitHostPort(server)
			files["import.yaml"] = fmt.Sprintf(`apiVersion: inference.networking.x-k8s.io/v1alpha1
kind: InferencePoolImport
metadata: {name: far}
status:
  clusters:
  - name: east
    routingMode: EndpointMode
    targetPortNumber: %s
    %s
    endpointPicker: {service: {addresses: [127.0.0.1], ports: [{number: %d}]}}
`, serverPort, endpoints, external)
			files["far.yaml"] = routeYAML("far", "/far",
				"{group: inference.networking.x-k8s.io, kind: InferencePoolImport, name: far}")
			files["policy.yaml"] = pickerPolicy(cert)
			s := up(t, files)
			answers(t, local(port)+"/far", http.StatusOK)
			for range 5 {
				if got, err := chat(t.Context(), local(port)+"/far"); err != nil || got.status != http.StatusOK ||
					got.header.Get("x-served-by") != "east-1" {
					t.Fatalf(`%d from %q: %s %v, want %d and "east-1"`,
						got.status, got.header.Get("x-served-by"), got.body, err, http.StatusOK)
				}
			}
			other, _ := certificate(t, "epp.example") // signed by another CA
			s.write("policy.yaml", pickerPolicy(other))
			stop() // Envoy verifies only new connections
			serve()
			answers(t, local(port)+"/far", http.StatusServiceUnavailable)
		})
	}
}

func TestInferencePoolImport_ParentWithHTTPSIsReachedOverTLS(t *testing.T) {
	t.Parallel()
	gateway := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("x-served-by", "over "+fmt.Sprint(r.TLS != nil))
	}))
	t.Cleanup(gateway.Close)
	plain := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("x-served-by", "over "+fmt.Sprint(r.TLS != nil))
	}))
	t.Cleanup(plain.Close)
	_, secured, _ := net.SplitHostPort(gateway.Listener.Addr().String())
	_, open, _ := net.SplitHostPort(plain.Listener.Addr().String())
	port := freePort(t)
	files := chatFiles(port, serverNamed(t, "here-1"))
	files["import.yaml"] = fmt.Sprintf(`apiVersion: inference.networking.x-k8s.io/v1alpha1
kind: InferencePoolImport
metadata: {name: far}
status:
  clusters:
  - name: west
    routingMode: ParentMode
    parents:
    - service: {addresses: [127.0.0.1], ports: [{number: %s, appProtocol: https}]}
    - service: {addresses: [127.0.0.1], ports: [{number: %s}]}
`, secured, open)
	files["far.yaml"] = routeYAML("far", "/far",
		"{group: inference.networking.x-k8s.io, kind: InferencePoolImport, name: far}")
	s := up(t, files)
	answers(t, local(port)+"/far", http.StatusOK)
	seen := map[string]bool{}
	eventually(t, "both gateways answer, each over its own protocol", func() error {
		got, err := chat(t.Context(), local(port)+"/far")
		if err != nil || got.status != http.StatusOK {
			return fmt.Errorf("got %d %s %w, want 200", got.status, got.body, err)
		}
		if seen[got.header.Get("x-served-by")] = true; !seen["over true"] || !seen["over false"] {
			return fmt.Errorf("answered %v, want over true and over false", seen)
		}
		return nil
	})
	if out := s.penstock("status"); !strings.Contains(out, "are sent to its gateways in cleartext") {
		t.Errorf("status: got\n%s\nwant the cleartext hop", out)
	}
}

type namingPicker struct {
	extprocv3.UnimplementedExternalProcessorServer
	pick string
}

func (p *namingPicker) serve(t *testing.T, address string, options ...grpc.ServerOption) (stop func()) {
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

// Process answers after the whole request, with an endpoint and the unchanged body.
func (p *namingPicker) Process(s extprocv3.ExternalProcessor_ProcessServer) error {
	var read []byte
	for {
		m, err := s.Recv()
		if err != nil {
			return nil
		}
		var replies []*extprocv3.ProcessingResponse
		switch r := m.Request.(type) {
		case *extprocv3.ProcessingRequest_RequestHeaders:
			if r.RequestHeaders.EndOfStream {
				replies = append(replies, p.headers())
			}
		case *extprocv3.ProcessingRequest_RequestBody:
			if read = append(read, r.RequestBody.Body...); r.RequestBody.EndOfStream {
				replies = append(replies, p.headers(),
					&extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_RequestBody{
						RequestBody: &extprocv3.BodyResponse{Response: &extprocv3.CommonResponse{
							BodyMutation: &extprocv3.BodyMutation{Mutation: &extprocv3.BodyMutation_StreamedResponse{
								StreamedResponse: &extprocv3.StreamedBodyResponse{Body: read, EndOfStream: true},
							}},
						}},
					}})
			}
		case *extprocv3.ProcessingRequest_ResponseHeaders:
			replies = append(replies,
				&extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_ResponseHeaders{
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

func (p *namingPicker) headers() *extprocv3.ProcessingResponse {
	const key = "x-gateway-destination-endpoint"
	endpoint := &structpb.Struct{Fields: map[string]*structpb.Value{key: structpb.NewStringValue(p.pick)}}
	return &extprocv3.ProcessingResponse{
		Response: &extprocv3.ProcessingResponse_RequestHeaders{RequestHeaders: &extprocv3.HeadersResponse{
			Response: &extprocv3.CommonResponse{
				HeaderMutation: &extprocv3.HeaderMutation{SetHeaders: []*corev3.HeaderValueOption{
					{Header: &corev3.HeaderValue{Key: key, RawValue: []byte(p.pick)}},
				}},
			},
		}},
		DynamicMetadata: &structpb.Struct{
			Fields: map[string]*structpb.Value{"envoy.lb": structpb.NewStructValue(endpoint)},
		},
	}
}
