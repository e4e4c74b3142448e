package main

import (
	"fmt"
	"net"
	"net/http"
	"testing"

	"github.com/penstock-project/penstock/cmd/penstock/internal/sim"
)

// Found by the suite of cluster sets (conformance/suites/clusterset): the only cluster of an import, whose pods are not declared, gives way to
// another one in the same change.
func TestInferencePoolImport_ReplacedClusterLosesNoRequest(t *testing.T) {
	t.Parallel()
	entries := map[string]string{}
	for _, name := range []string{"one", "two"} {
		server := modelServer(t, sim.Config{Name: name})
		remote := &heldPicker{names: server, called: make(chan struct{}, 10000), may: make(chan struct{})}
		close(remote.may)
		_, serverPort, _ := net.SplitHostPort(server)
		entries[name] = fmt.Sprintf(`apiVersion: inference.networking.x-k8s.io/v1alpha1
kind: InferencePoolImport
metadata: {name: far}
status:
  clusters:
  - name: %s
    routingMode: EndpointMode
    targetPortNumber: %s
    podCIDRs: [127.0.0.0/8]
    endpointPicker: {service: {addresses: [127.0.0.1], ports: [{number: %d, appProtocol: kubernetes.io/h2c}]}}
`, name, serverPort, remote.serve(t))
	}
	port := freePort(t)
	files := chatFiles(port, modelServer(t, sim.Config{Name: "here-1"}))
	files["import.yaml"] = entries["one"]
	files["far.yaml"] = routeYAML("far", "/far", "{group: inference.networking.x-k8s.io, kind: InferencePoolImport, name: far}")
	s := up(t, files)
	answers(t, local(port)+"/far", http.StatusOK)
	sent := 0
	for i := range 20 {
		name := []string{"two", "one"}[i%2]
		s.write("import.yaml", entries[name])
		for {
			got, err := chat(t.Context(), local(port)+"/far")
			if sent++; err != nil || got.status != http.StatusOK {
				t.Fatalf("request %d, change %d: %d %s %v %v", sent, i, got.status, got.body, got.header, err)
			}
			if got.header.Get("x-served-by") == name {
				break
			}
		}
	}
}
