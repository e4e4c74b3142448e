package attacks

import (
	"strings"
	"testing"
)

// modelRoute is a route by model: Envoy holds bodies until it has read the model's name.
const modelRoute = `apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: by-model}
spec:
  parentRefs: [{name: gw}]
  rules:
  - matches: [{path: {value: /by-model}, headers: [{name: X-Gateway-Model-Name, value: m}]}]
    backendRefs: [{group: inference.networking.k8s.io, kind: InferencePool, name: chat}]
`

// A body whose scan would occupy a worker thread for seconds is answered 413. It delays other
// requests only briefly.
func TestModelScan_HostileBodiesAreAnswered413(t *testing.T) {
	s := start(t, nil)
	s.Write("by-model.yaml", modelRoute)
	s.Eventually("the route by model serves", func() error { return s.ask("POST", "/by-model", `{"model":"m"}`) })
	traffic := s.traffic()
	const size = 32<<20 - 100
	for name, part := range map[string]string{"strings": `"",`, "brackets": `[[""]],`, "keys": `{"":0},`} {
		body := `{"a":[` + strings.Repeat(part, size/len(part)) + `0],"model":"m"}`
		if err := s.ask("POST", "/by-model", body); err == nil || !strings.Contains(err.Error(), "413") ||
			!strings.Contains(err.Error(), `"code":"body_too_large"`) {
			t.Errorf("%s: got %v, want 413 body_too_large", name, err)
		}
	}
	escapes := `{"a":"` + strings.Repeat(`\"`, size/2) + `","model":"m"}`
	if err := s.ask("POST", "/by-model", escapes); err == nil || !strings.Contains(err.Error(), "413") {
		t.Errorf("escaped quotes: got %v, want 413", err)
	}
	image := `{"messages":[{"role":"user","content":"` + strings.Repeat("iVBORw0KGgo", 2<<20/11) + `"}],"model":"m"}`
	if err := s.ask("POST", "/by-model", image); err != nil {
		t.Errorf("an image before the model: %v", err)
	}
	traffic.end()
}
