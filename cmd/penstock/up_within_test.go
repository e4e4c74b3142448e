package main

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// Prompts stay in the clusters that a policy allows, also when none of these can be reached.
func TestWithin_RequestsStayInTheirClusters(t *testing.T) {
	t.Parallel()
	gateway := func(name string) (*httptest.Server, string) {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = fmt.Fprint(w, name) }))
		t.Cleanup(s.Close)
		_, port, _ := net.SplitHostPort(s.Listener.Addr().String())
		return s, fmt.Sprintf("  - {name: %s, routingMode: ParentMode, parents: [{service: {addresses: [127.0.0.1], ports: [{number: %s}]}}]}\n", name, port)
	}
	_, east := gateway("east")
	west, westEntry := gateway("west")
	port := freePort(t)
	to := "{group: inference.networking.x-k8s.io, kind: InferencePoolImport, name: %s}"
	policy := `apiVersion: penstock.dev/v1alpha1
kind: PoolPolicy
metadata: {name: far}
spec:
  targetRef: {group: inference.networking.x-k8s.io, kind: InferencePoolImport, name: far}
  selection: {within: {clusters: [%s]}}
`
	s := up(t, map[string]string{
		"gateway.yaml": gatewayYAML("gw", port), "policy.yaml": fmt.Sprintf(policy, "west"),
		"far.yaml": "apiVersion: inference.networking.x-k8s.io/v1alpha1\nkind: InferencePoolImport\nmetadata: {name: far}\nstatus:\n  clusters:\n" + east + westEntry,
		"all.yaml": routeYAML("all", "/all", fmt.Sprintf(to, "far")), "east.yaml": routeYAML("east", "/east", fmt.Sprintf(to, "far-east")),
	})
	for range 30 {
		if got := answers(t, local(port)+"/all", http.StatusOK); got.body != "west" {
			t.Fatalf("a request goes to %s", got.body)
		}
	}
	answers(t, local(port)+"/east", http.StatusInternalServerError) // a backend that does not exist
	west.Close()
	for range 10 {
		if got := answers(t, local(port)+"/all", http.StatusServiceUnavailable); strings.Contains(got.body, "east") {
			t.Fatalf("a request left: %s", got.body)
		}
	}
	s.write("policy.yaml", fmt.Sprintf(policy, "north"))
	eventually(t, "the policy's finding is shown", func() error {
		if out := s.penstock("status"); !strings.Contains(out, "it leaves no cluster of InferencePoolImport default/far, which east, west export") {
			return fmt.Errorf("%s", out)
		}
		return nil
	})
	answers(t, local(port)+"/all", http.StatusInternalServerError)
	s.write("policy.yaml", fmt.Sprintf(policy, "east"))
	if got := answers(t, local(port)+"/all", http.StatusOK); got.body != "east" {
		t.Errorf("a request goes to %s", got.body)
	}
	answers(t, local(port)+"/east", http.StatusOK)
}
