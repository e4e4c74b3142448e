package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/penstock-project/penstock/picker/modelserver"
)

// certificate returns a self-signed certificate and its key in PEM.
func certificate(t testing.TB, host string) (cert, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: host}, DNSNames: []string{host}, IsCA: true,
		BasicConstraintsValid: true,
		NotBefore:             time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw})
}

func secretYAML(name string, cert, key []byte) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Secret
type: kubernetes.io/tls
metadata: {name: %s}
data:
  tls.crt: %s
  tls.key: %s
`, name, base64.StdEncoding.EncodeToString(cert), base64.StdEncoding.EncodeToString(key))
}

// over sends a request to an HTTPS port. sni is the TLS server name, host the authority.
func over(ctx context.Context, roots *x509.CertPool, port int, sni, host string) (reply, error) {
	c := &http.Client{Timeout: pollTimeout, Transport: &http.Transport{
		DisableKeepAlives: true, ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: sni},
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, fmt.Sprintf("127.0.0.1:%d", port))
		},
	}}
	defer c.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("https://%s:%d/v1/models", host, port), nil)
	if err != nil {
		return reply{}, err
	}
	return do(c, req)
}

// twoHosts returns a Gateway with an HTTPS listener for each of two hosts at one port.
func twoHosts(port int, server string) map[string]string {
	host, backend, _ := net.SplitHostPort(server)
	return map[string]string{
		"gateway.yaml": fmt.Sprintf(`apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: gw}
spec:
  gatewayClassName: penstock
  addresses: [{value: 127.0.0.1}]
  listeners:
  - {name: a, port: %d, protocol: HTTPS, hostname: a.example.com, tls: {certificateRefs: [{name: cert-a}]}}
  - {name: b, port: %d, protocol: HTTPS, hostname: b.example.com, tls: {certificateRefs: [{name: cert-b}]}}
`, port, port),
		"route.yaml": `apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: both}
spec:
  parentRefs: [{name: gw}]
  rules: [{backendRefs: [{name: web, port: 80}]}]
`,
		"service.yaml": fmt.Sprintf(`apiVersion: v1
kind: Service
metadata: {name: web}
spec:
  ports: [{name: http, port: 80, targetPort: %s}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-1, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
ports: [{name: http, port: %s}]
endpoints: [{addresses: [%s]}]
`, backend, backend, host),
	}
}

func TestHTTPS_EachHostHasItsCertificate(t *testing.T) {
	t.Parallel()
	port := freePort(t)
	certA, keyA := certificate(t, "a.example.com")
	certB, keyB := certificate(t, "b.example.com")
	files := twoHosts(port, serverNamed(t, "pod-1"))
	files["certs.yaml"] = secretYAML("cert-a", certA, keyA) + "---\n" + secretYAML("cert-b", certB, keyB)
	s := up(t, files)
	s.out.expect(t, fmt.Sprintf("https://127.0.0.1:%d", port))

	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(certA)
	roots.AppendCertsFromPEM(certB)
	for _, c := range []struct {
		sni, host string
		status    int
	}{
		{"a.example.com", "a.example.com", 200},
		{"b.example.com", "b.example.com", 200},
		{"a.example.com", "b.example.com", 421}, // another listener has this host
		{"b.example.com", "a.example.com", 421},
		{"a.example.com", "c.example.com", 404},
	} {
		got, err := over(t.Context(), roots, port, c.sni, c.host)
		if err != nil || got.status != c.status {
			t.Errorf("%s over a connection for %s: %d %v, want %d", c.host, c.sni, got.status, err, c.status)
		}
		if c.status == 200 && got.header.Get("x-served-by") != "pod-1" {
			t.Errorf("%s: got %v, want it served by pod-1", c.host, got.header)
		}
	}
	if got, err := over(t.Context(), roots, port, "c.example.com", "c.example.com"); err == nil {
		t.Errorf("a host without a certificate: got %+v, want an error", got)
	}

	// A new certificate takes effect. One with another key is reported, and the last good one
	// stays.
	newCert, newKey := certificate(t, "a.example.com")
	s.write("certs.yaml", secretYAML("cert-a", newCert, newKey)+"---\n"+secretYAML("cert-b", certB, keyB))
	fresh := x509.NewCertPool()
	fresh.AppendCertsFromPEM(newCert)
	eventually(t, "the new certificate is shown", func() error {
		_, err := over(t.Context(), fresh, port, "a.example.com", "a.example.com")
		return err
	})
	s.write("certs.yaml", secretYAML("cert-a", newCert, keyB)+"---\n"+secretYAML("cert-b", certB, keyB))
	s.errs.expect(t, "certs.yaml:5: Secret default/cert-a data: tls.crt and tls.key are not a certificate with its key")
	if _, err := over(t.Context(), fresh, port, "a.example.com", "a.example.com"); err != nil {
		t.Errorf("the last good certificate is not served any more: %v", err)
	}
	s.write("certs.yaml", secretYAML("cert-b", certB, keyB))
	s.errs.expect(t,
		"gateway.yaml:8: Gateway default/gw spec.listeners[0].tls.certificateRefs[0]: Secret default/cert-a "+
			"does not exist")
	if out := s.penstock("status"); !strings.Contains(out, "InvalidCertificateRef") {
		t.Errorf("status: got\n%s\nwant InvalidCertificateRef", out)
	}
	if got, err := over(t.Context(), roots, port, "b.example.com", "b.example.com"); err != nil ||
		got.status != http.StatusOK {
		t.Errorf("the other listener: %d %v, want %d", got.status, err, http.StatusOK)
	}
}

func TestBackendTLSPolicy_MetricsPagesAreReadOverHTTPS(t *testing.T) {
	t.Parallel()
	cert, key := certificate(t, "models.example")
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	quiet := slog.New(slog.DiscardHandler)
	model, err := modelserver.New(modelserver.Config{Name: "secure", Model: "llama", Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(model)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	server.StartTLS()
	t.Cleanup(server.Close)
	policy := func(ca []byte) string {
		return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: ca}\ndata:\n  ca.crt: |\n    " +
			strings.ReplaceAll(string(ca), "\n", "\n    ") + `
---
apiVersion: gateway.networking.k8s.io/v1
kind: BackendTLSPolicy
metadata: {name: models}
spec:
  targetRefs: [{group: inference.networking.k8s.io, kind: InferencePool, name: chat}]
  validation: {hostname: models.example, caCertificateRefs: [{group: "", kind: ConfigMap, name: ca}]}
`
	}
	port := freePort(t)
	files := chatFiles(port, server.Listener.Addr().String())
	files["policy.yaml"] = policy(cert)
	s := up(t, files)
	if got := answers(t, local(port), http.StatusOK); got.header.Get("x-served-by") != "secure" {
		t.Errorf(`served by %q, want "secure"`, got.header.Get("x-served-by"))
	}
	explained := func(want string) {
		t.Helper()
		eventually(t, "explain shows "+want, func() error {
			if text := s.penstock("explain", local(port)+"/v1/chat/completions"); !strings.Contains(text, want) {
				return fmt.Errorf("explain: got %s, want %s", text, want)
			}
			return nil
		})
	}
	explained("queue 0, running 0")
	if got := listModels(t, http.MethodGet, local(port)); got.status != http.StatusOK ||
		!strings.Contains(got.body, `"id":"llama"`) {
		t.Errorf(`the list of models: %d %s, want %d and a text with "\"id\":\"llama\""`,
			got.status, got.body, http.StatusOK)
	}
	other, _ := certificate(t, "models.example") // signed by another CA
	s.write("policy.yaml", policy(other))
	explained("certificate signed by unknown authority")
}

func listModels(t *testing.T, method, url string) reply {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url+"/v1/models", nil)
	if err != nil {
		t.Fatal(err)
	}
	got, err := do(client(), req)
	if err != nil {
		t.Fatal(err)
	}
	return got
}
