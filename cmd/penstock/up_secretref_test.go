package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// guardedHealth serves gRPC health over TLS, at first NOT_SERVING, and requires the Authorization
// header.
func guardedHealth(t *testing.T, cert, key []byte, authorization string) (server *health.Server, port int) {
	t.Helper()
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server = health.NewServer()
	server.SetServingStatus("", healthv1.HealthCheckResponse_NOT_SERVING)
	s := grpc.NewServer(grpc.Creds(credentials.NewTLS(&tls.Config{Certificates: []tls.Certificate{pair}})),
		grpc.UnaryInterceptor(
			func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
				if got := metadata.ValueFromIncomingContext(ctx, "authorization"); len(got) == 1 &&
					got[0] == authorization {
					return handle(ctx, req)
				}
				return nil, status.Error(codes.Unauthenticated, "who is it?")
			}))
	healthv1.RegisterHealthServer(s, server)
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Stop)
	return server, l.Addr().(*net.TCPAddr).Port
}

// A remote picker's health port requires a password. Without it, the import serves and the status
// explains the problem.
func TestSecretRef_HealthOfARemotePickerIsKnownByItsCredential(t *testing.T) {
	t.Parallel()
	cert, key := certificate(t, "epp.example")
	server := serverNamed(t, "east-1")
	port, external := freePort(t), freePort(t)
	guarded, healthPort := guardedHealth(t, cert, key, "Basic bWU6czNjcmV0")
	(&namingPicker{pick: server}).serve(t, fmt.Sprintf("127.0.0.1:%d", external))
	_, serverPort, _ := net.SplitHostPort(server)
	s := up(t, map[string]string{
		"gateway.yaml": gatewayYAML("gw", port), "route.yaml": routeYAML("far", "/", toImport("far")),
		"import.yaml": fmt.Sprintf(`apiVersion: inference.networking.x-k8s.io/v1alpha1
kind: InferencePoolImport
metadata: {name: far}
status:
  clusters:
  - name: east
    routingMode: EndpointMode
    targetPortNumber: %s
    endpoints: [{address: 127.0.0.1}]
    endpointPicker:
      service: {addresses: [127.0.0.1], ports: [{number: %d, appProtocol: kubernetes.io/h2c}]}
      health: {port: %d, secretRef: {name: epp}}
`, serverPort, external, healthPort),
	})
	const unknown = "status.clusters[0].endpointPicker.health.secretRef: cluster east: the health port of its picker " +
		"is not asked, and its health counts as unknown: "
	reports := func(what string, want ...string) {
		t.Helper()
		eventually(t, what, func() error {
			text := s.penstock("status")
			for _, w := range want {
				if yes, isNot := strings.CutPrefix(w, "not: "); strings.Contains(text, yes) == isNot {
					return fmt.Errorf("the status: got\n%s\nwant %q", text, w)
				}
			}
			return nil
		})
		answers(t, local(port), http.StatusOK)
	}
	secret := func(password string) string {
		return "apiVersion: v1\nkind: Secret\nmetadata: {name: epp}\nstringData: {username: me, password: " + password +
			"}\n"
	}
	down := fmt.Sprintf("cluster east: its picker fails: its health port %d reports NOT_SERVING", healthPort)
	reports("no policy", unknown+"no BackendTLSPolicy verifies the picker", "not: "+down)
	s.write("policy.yaml", pickerPolicy(cert))
	reports("no Secret", unknown+"Secret default/epp does not exist", "not: "+down)
	s.write("secret.yaml", secret("another"))
	reports("another password",
		fmt.Sprintf(
			"status.clusters[0].endpointPicker.health: cluster east: the health of its picker is unknown: port %d: "+
				"it does not accept the credential (Unauthenticated)", healthPort),
		"not: "+unknown, "not: "+down)
	s.write("secret.yaml", secret("s3cret"))
	reports("the password", down, "not: is unknown", "not: "+unknown)
	other, _ := certificate(t, "epp.example") // signed by another CA
	s.write("policy.yaml", pickerPolicy(other))
	reports("another CA", "is unknown: port", "unknown authority", "not: "+down)
	s.write("policy.yaml", pickerPolicy(cert))
	reports("the CA", down)
	guarded.SetServingStatus("", healthv1.HealthCheckResponse_SERVING)
	reports("it serves", "not: "+down, "not: is unknown")
	if text := s.penstock("status") + s.errs.String(); strings.Contains(text, "s3cret") ||
		strings.Contains(text, "bWU6czNjcmV0") {
		t.Error("the status or the log has the password")
	}
}

// A remote picker's metrics page requires a client certificate. With it, LeastLoad counts the
// cluster's servers.
func TestSecretRef_ServersOfARemotePickerAreKnownByItsCredential(t *testing.T) {
	t.Parallel()
	cert, key := certificate(t, "epp.example")
	own, ownKey := certificate(t, "gateway.example")
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(own)
	pages := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintln(w, `llm_d_epp_ready_endpoints{name="far"} 8`)
	}))
	pages.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: trusted,
		ClientAuth: tls.RequireAndVerifyClientCert}
	pages.Config.ErrorLog = log.New(io.Discard, "", 0)
	pages.StartTLS()
	t.Cleanup(pages.Close)
	pagePort := pages.Listener.Addr().(*net.TCPAddr).Port
	port := freePort(t)
	east := strings.Replace(clusterEntry(t, "east"), "endpointPicker: {",
		fmt.Sprintf("endpointPicker: {metrics: {port: %d, secretRef: {name: epp}}, ", pagePort), 1)
	s := up(t, map[string]string{
		"gateway.yaml": gatewayYAML("gw", port), "route.yaml": routeYAML("far", "/", toImport("far")),
		"selection.yaml": fmt.Sprintf(leastLoad, "far"),
		"import.yaml": "apiVersion: inference.networking.x-k8s.io/v1alpha1\nkind: InferencePoolImport\nmetadata: " +
			"{name: far}\nstatus:\n  clusters:\n" + east + clusterEntry(t, "west"),
		"policy.yaml": pickerPolicy(cert),
	})
	answers(t, local(port), http.StatusOK)
	shows := func(what string, servers int, words string) {
		t.Helper()
		eventually(t, what, func() error {
			if n := s.series(`penstock_selection_servers{cluster="east",import="default/far"} `); n != servers {
				return fmt.Errorf("%d servers, want %d", n, servers)
			}
			if text := s.penstock("status"); strings.Contains(text, "cluster east: the metrics") != (words != "") ||
				!strings.Contains(text, words) {
				return fmt.Errorf("the status: got\n%s\nwant %q", text, words)
			}
			return nil
		})
		answers(t, local(port), http.StatusOK)
	}
	shows("no Secret", 0,
		"status.clusters[0].endpointPicker.metrics.secretRef: cluster east: the metrics port of its picker is not "+
			"asked, and its metrics are not read: Secret default/epp does not exist; ")
	s.write("secret.yaml", secretYAML("epp", cert, key))
	shows("another certificate", 0,
		fmt.Sprintf(
			"status.clusters[0].endpointPicker.metrics: cluster east: the metrics of its picker are not read: port "+
				"%d: remote error: tls: ", pagePort))
	s.write("secret.yaml", secretYAML("epp", own, ownKey))
	shows("the certificate", 8, "")
}

func clusterEntry(t *testing.T, name string) string {
	t.Helper()
	server, picker := serverNamed(t, name), freePort(t)
	(&namingPicker{pick: server}).serve(t, fmt.Sprintf("127.0.0.1:%d", picker))
	return fmt.Sprintf(`  - name: %s
    routingMode: EndpointMode
    targetPorts: [{number: %d}]
    podCIDRs: [127.0.0.0/8]
    endpointPicker: {service: {addresses: [127.0.0.1], ports: [{number: %d, appProtocol: kubernetes.io/h2c}]}}
`, name, portOf(server), picker)
}

// series returns a metric's integer value; 0 if the metric is missing.
func (s *site) series(begin string) (n int) {
	for line := range strings.Lines(s.metrics()) {
		if value, ok := strings.CutPrefix(line, begin); ok {
			n, _ = strconv.Atoi(strings.TrimSpace(value))
		}
	}
	return n
}
