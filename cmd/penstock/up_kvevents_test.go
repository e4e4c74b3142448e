package main

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/penstock-project/penstock/cmd/penstock/internal/sim"
)

// kvPolicy has the chat pool's KV events read.
func kvPolicy(port int, more string) string {
	return fmt.Sprintf(`apiVersion: penstock.dev/v1alpha1
kind: PoolPolicy
metadata: {name: chat}
spec:
  targetRef: {name: chat}
  picker: {kvEvents: {port: %d%s}}
`, port, more)
}

// The servers get their first prompts from a client of their own: only their events show what they have cached.
func TestKVEvents_OfServersDecidePicks(t *testing.T) {
	t.Parallel()
	port, events, at := freePort(t), freePort(t), freePort(t)
	var servers []string
	for _, host := range []string{"127.0.0.2", "127.0.0.3"} {
		servers = append(servers, modelServer(t, sim.Config{
			Name: host, PrefixCaching: true, Listen: []string{fmt.Sprintf("%s:%d", host, at)}, KVEvents: fmt.Sprintf("%s:%d", host, events),
		}))
	}
	files := chatFiles(port, servers...)
	files["policy.yaml"] = kvPolicy(events, ", render: {timeoutMilliseconds: 500}")
	metrics := freePort(t)
	up(t, files, "--http", fmt.Sprintf("127.0.0.1:%d", metrics))
	answers(t, local(port), http.StatusOK)
	number := 0
	// 20 in a row are no chance: without events, each would have one of two.
	eventually(t, "requests follow what the servers have cached", func() error {
		for range 20 {
			number++
			server := servers[rand.IntN(2)]
			beginning := strings.Repeat(fmt.Sprintf("document-%d ", number), 1000)
			if _, err := askFor(t, "http://"+server, beginning+"one"); err != nil {
				return err
			}
			got, err := askFor(t, local(port), beginning+"another")
			if err != nil {
				return err
			}
			if by := got.header.Get("x-served-by"); !strings.HasPrefix(server, by+":") {
				return fmt.Errorf("prompt %d is cached at %s, and was sent to %s", number, server, by)
			}
		}
		return nil
	})
	if n := metric(t, metrics, `penstock_picker_renders_total{outcome="rendered"}`); n < 10 { // a slow machine misses some in half a second
		t.Errorf("%g prompts were rendered for %d requests", n, number)
	}
}

// askFor sends a chat completion with a prompt.
func askFor(t *testing.T, url, prompt string) (reply, error) {
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/v1/chat/completions", strings.NewReader(fmt.Sprintf(`{"model": "llama", "max_tokens": 1, "messages": [{"role": "user", "content": %q}]}`, prompt)))
	if err != nil {
		return reply{}, err
	}
	got, err := do(client(), req)
	if err == nil && got.status != http.StatusOK {
		err = fmt.Errorf("%d: %s", got.status, got.body)
	}
	return got, err
}

// metric returns a series of Penstock's /metrics.
func metric(t *testing.T, port int, series string) (value float64) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, local(port)+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	got, err := do(client(), req)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(got.body) {
		if rest, ok := strings.CutPrefix(line, series+" "); ok {
			_, _ = fmt.Sscan(rest, &value)
		}
	}
	return value
}

func TestBackendTLSPolicy_MetricsPagesAreReadOverHTTPS(t *testing.T) {
	t.Parallel()
	cert, key := certificate(t, "models.example")
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	model, err := sim.New(sim.Config{Name: "secure", Model: "llama", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(model)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	server.StartTLS()
	t.Cleanup(server.Close)
	policy := func(ca []byte) string {
		return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: ca}\ndata:\n  ca.crt: |\n    " + strings.ReplaceAll(string(ca), "\n", "\n    ") + `
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
		t.Errorf("served by %q", got.header.Get("x-served-by"))
	}
	explained := func(want string) {
		t.Helper()
		eventually(t, "explain shows "+want, func() error {
			if text := s.penstock("explain", local(port)+"/v1/chat/completions"); !strings.Contains(text, want) {
				return fmt.Errorf("%s", text)
			}
			return nil
		})
	}
	explained("queue 0, running 0")
	if got := listModels(t, http.MethodGet, local(port)); got.status != http.StatusOK || !strings.Contains(got.body, `"id":"llama"`) {
		t.Errorf("the list of models: %d %s", got.status, got.body)
	}
	other, _ := certificate(t, "models.example") // of another CA
	s.write("policy.yaml", policy(other))
	explained("certificate signed by unknown authority")
}
