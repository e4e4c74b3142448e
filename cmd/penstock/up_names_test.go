package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/penstock-project/penstock/cmd/penstock/internal/sim"
)

// pickerService is the Service "epp" of an external picker on this machine, without TLS.
func pickerService(port int) string {
	return fmt.Sprintf(`---
apiVersion: v1
kind: Service
metadata: {name: epp}
spec:
  ports: [{name: ext-proc, port: %d, appProtocol: kubernetes.io/h2c}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: epp-1, labels: {kubernetes.io/service-name: epp}}
addressType: IPv4
ports: [{name: ext-proc, port: %d}]
endpoints: [{addresses: [127.0.0.1]}]
`, port, port)
}

// otherNames are a picker's flags, and what a PoolPolicy states about them.
var otherNames = []string{"--secure-serving=false", "--destination-endpoint-hint-key", "x-pod", "--destination-endpoint-hint-metadata-namespace", "picks", "--destination-endpoint-subset-metadata-namespace", "subsets"}

const otherNamesField = "externalPicker: {destinationKey: x-pod, destinationNamespace: picks, subsetNamespace: subsets}"

func TestPoolPolicy_ExternalPickerIsAskedByItsOwnNames(t *testing.T) {
	t.Parallel()
	first, second := modelServer(t, sim.Config{Name: "pod-1"}), modelServer(t, sim.Config{Name: "pod-2"})
	// The picker picks pod-2 only, and fails closed: a pick that Envoy does not find is 503.
	p := startPicker(t, aloneFiles(second), append(otherNames, "--conformance")...)
	port := freePort(t)
	files := chatFiles(port, first, second)
	pool := strings.Replace(poolYAML("chat"), "spec:\n", fmt.Sprintf("spec:\n  endpointPickerRef: {name: epp, port: {number: %d}, failureMode: FailClose}\n", p.port), 1)
	files["pool.yaml"] = pool + pickerService(p.port)
	policy := func(kind, name, more string) string {
		return fmt.Sprintf("apiVersion: penstock.dev/v1alpha1\nkind: PoolPolicy\nmetadata: {name: %s}\nspec:\n  targetRef: {group: %q, kind: %s, name: %s}\n  %s\n%s---\n",
			name, map[string]string{"InferencePool": "inference.networking.k8s.io", "InferencePoolImport": "inference.networking.x-k8s.io"}[kind], kind, name, otherNamesField, more)
	}
	files["policies.yaml"] = policy("InferencePool", "chat", "") + policy("InferencePoolImport", "far", "")
	files["import.yaml"] = fmt.Sprintf(`apiVersion: inference.networking.x-k8s.io/v1alpha1
kind: InferencePoolImport
metadata: {name: far}
status:
  clusters:
  - name: relayed
    routingMode: EndpointMode
    targetPortNumber: %[1]d
    podCIDRs: [127.0.0.0/8]
    endpointPicker: {service: {addresses: [127.0.0.1], ports: [{number: %[2]d, appProtocol: kubernetes.io/h2c}]}}
  - name: declared
    routingMode: EndpointMode
    targetPorts: [{number: %[1]d}]
    endpoints: [{address: 127.0.0.1}]
    endpointPicker: {service: [{addresses: [127.0.0.1], ports: [{number: %[2]d, appProtocol: kubernetes.io/h2c}]}]}
`, portOf(second), p.port)
	for _, cluster := range []string{"relayed", "declared"} {
		files[cluster+".yaml"] = routeYAML(cluster, "/"+cluster, "{group: inference.networking.x-k8s.io, kind: InferencePoolImport, name: far-"+cluster+"}")
	}
	s := up(t, files)
	served := func(path string) {
		t.Helper()
		got := answers(t, local(port)+path, http.StatusOK)
		if by, at := got.header.Get("x-served-by"), got.header.Get("x-conformance-test-served-endpoint"); by != "pod-2" || path != "/relayed" && at != second {
			t.Errorf("%s: from %q, and the picker received that %q served", path, by, at)
		}
	}
	for _, path := range []string{"", "/relayed", "/declared"} {
		served(path)
	}
	// A body that no picker gets: our picker asks the external one.
	eventually(t, "a multipart body is picked for", func() error {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, local(port)+"/v1/chat/completions", strings.NewReader(`{"model": "llama", "messages": []}`))
		if err != nil {
			return err
		}
		req.Header.Set("content-type", "multipart/form-data; boundary=x")
		if got, err := do(client(), req); err != nil || got.status == http.StatusServiceUnavailable || got.header.Get("x-served-by") != "pod-2" {
			return fmt.Errorf("%d from %q: %s %w", got.status, got.header.Get("x-served-by"), got.body, err)
		}
		return nil
	})
	// Behind a hop, because the pool spills.
	files["spare.yaml"] = poolYAML("spare") + "---\n" + serversYAML("spare", modelServer(t, sim.Config{Name: "spare-1"}))
	s.write("spare.yaml", files["spare.yaml"])
	s.write("policies.yaml", policy("InferencePool", "chat", "  spill: [{name: spare}]\n")+policy("InferencePoolImport", "far", ""))
	eventually(t, "the pool spills", func() error {
		if out := s.penstock("explain", local(port)+"/v1/chat/completions"); !strings.Contains(out, "spare") {
			return fmt.Errorf("%s", out)
		}
		return nil
	})
	for range 5 {
		served("")
	}
	// Without the policy, no pick is found.
	s.write("policies.yaml", "")
	answers(t, local(port), http.StatusServiceUnavailable)
}
