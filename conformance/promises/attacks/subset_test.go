package attacks

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// ownObjects are a route /own with a subset of the pool, one tenant's servers, and one such server.
func ownObjects(server backend) string {
	return fmt.Sprintf(`apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: own}
spec:
  parentRefs: [{name: gw}]
  rules:
  - matches: [{path: {value: /own}}]
    backendRefs:
    - group: inference.networking.k8s.io
      kind: InferencePool
      name: chat
      filters: [{type: ExtensionRef, extensionRef: {group: penstock.dev, kind: PoolPolicy, name: own}}]
---
apiVersion: penstock.dev/v1alpha1
kind: PoolPolicy
metadata: {name: own}
spec: {subset: {matchLabels: {tenant: own}}}
---
apiVersion: penstock.dev/v1alpha1
kind: ModelServers
metadata: {name: own, labels: {app: chat, tenant: own}}
spec: {servers: [{address: %q, ports: [%d]}]}
`, server.address, server.port)
}

func TestSubset_ServersOutsideGetNoRequest(t *testing.T) {
	own := modelServer()
	t.Cleanup(own.Close)
	var named atomic.Pointer[string]
	processor := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = fmt.Fprintf(w, `{"worker_address":%q}`, *named.Load())
	}))
	t.Cleanup(processor.Close)
	s := prepare(t,
		map[string]string{"own.yaml": ownObjects(at(own)),
			"processor.yaml": processorObjects(processor.Listener.Addr().(*net.TCPAddr).Port)})
	outside := s.server.Listener.Addr().String()
	named.Store(&outside)
	var reached, served atomic.Int64
	for server, count := range map[*httptest.Server]*atomic.Int64{s.server: &reached, own: &served} {
		next := server.Config.Handler
		server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasPrefix(r.URL.Path, "/own") {
				count.Add(1)
			}
			next.ServeHTTP(w, r)
		})
	}
	s.serve()
	s.attach()
	s.Eventually("the route serves", func() error { return s.ask(http.MethodPost, "/own/v1/completions", "{}") })
	attack := func(want int) {
		t.Helper()
		for _, name := range []string{"x-gateway-destination-endpoint", "X-Gateway-Destination-Endpoint-Subset",
			"x-penstock-subset", "x-penstock-pool", "x-penstock-spill", "x-session-token",
			"x-worker-instance-id", "x-prefiller-host-port", "x-data-parallel-host-port", "test-epp-endpoint-selection",
			"x-envoy-original-dst-host", "host", "cookie"} {
			for _, value := range []string{outside, "", "tenant!=own", "default/chat"} {
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPost,
					"http://"+local(s.gateway)+"/own/v1/completions",
					strings.NewReader(`{"route":true,"prompt":"a","nvext":{"backend_instance_id":1},"worker_address":"`+
						outside+`"}`))
				if err != nil {
					t.Fatal(err)
				}
				if req.Header[name] = []string{value, value}; name == "host" {
					req.Host = outside
				}
				response, err := http.DefaultClient.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				_ = response.Body.Close()
				if response.StatusCode != want && response.StatusCode != http.StatusBadRequest {
					t.Errorf("%s: %q is answered %s, want %d", name, value, response.Status, want)
				}
			}
		}
		if n := reached.Load(); n > 0 {
			t.Errorf("%d requests reached a server outside of the subset, want 0", n)
		}
	}
	attack(http.StatusOK)
	if served.Load() < 40 {
		t.Errorf("the subset's server got %d requests, want at least 40", served.Load())
	}
	s.Write("own.yaml", strings.Replace(ownObjects(at(own)), "app: chat, tenant: own", "app: chat, tenant: former", 1))
	s.Eventually("the subset has no server", func() error {
		if s.ask(http.MethodPost, "/own/v1/completions", "{}") == nil {
			return errors.New("it has one")
		}
		return nil
	})
	attack(http.StatusServiceUnavailable)
}
