package main

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
)

func importedSliceYAML(name, cluster, address string) string {
	host, port, _ := net.SplitHostPort(address)
	return fmt.Sprintf(`---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: %[1]s-%[2]s, labels: {multicluster.kubernetes.io/service-name: %[1]s, multicluster.kubernetes.io/source-cluster: %[2]s}}
addressType: IPv4
ports: [{name: http, port: %[4]s}]
endpoints: [{addresses: [%[3]s]}]
`, name, cluster, host, port)
}

func TestServiceImport_RequestsReachItsClustersElseItsAddress(t *testing.T) {
	t.Parallel()
	port := freePort(t)
	named := func(name string) string { return serverNamed(t, name) }
	east, west, address := named("east"), named("west"), named("address")
	host, number, _ := net.SplitHostPort(address)
	imported := fmt.Sprintf(`apiVersion: multicluster.x-k8s.io/v1beta1
kind: ServiceImport
metadata: {name: web}
spec: {type: ClusterSetIP, ips: [%q], ports: [{name: http, port: %s}]}
`, host, number)
	s := up(t, map[string]string{
		"gateway.yaml": gatewayYAML("gw", port),
		"web.yaml":     imported + importedSliceYAML("web", "east", east) + importedSliceYAML("web", "west", west),
		"route.yaml": fmt.Sprintf(`apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: web}
spec:
  parentRefs: [{name: gw}]
  rules:
  - backendRefs: [{group: multicluster.x-k8s.io, kind: ServiceImport, name: web, port: %s}]
`, number),
	})
	servedBy := func(want ...string) {
		t.Helper()
		eventually(t, "requests are served by "+strings.Join(want, " and "), func() error {
			seen := map[string]bool{}
			for range 20 {
				got, err := chat(t.Context(), local(port))
				if err != nil || got.status != http.StatusOK {
					return fmt.Errorf("got %d %v, want 200", got.status, err)
				}
				seen[got.header.Get("x-served-by")] = true
			}
			for _, name := range want {
				if !seen[name] {
					return fmt.Errorf("served by %v, want %v", seen, want)
				}
			}
			if len(seen) != len(want) {
				return fmt.Errorf("served by %v, want %v", seen, want)
			}
			return nil
		})
	}
	servedBy("east", "west")
	s.write("web.yaml", imported+importedSliceYAML("web", "west", west))
	servedBy("west")
	s.write("web.yaml", imported)
	servedBy("address")
	s.write("web.yaml", strings.Replace(imported, "ClusterSetIP", "Anything", 1))
	s.errs.expect(t, "ServiceImport default/web spec.type: ")
	servedBy("address") // the last good version stays in effect
}
