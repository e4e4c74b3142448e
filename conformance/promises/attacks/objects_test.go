package attacks

import (
	"fmt"
	"net"
	"net/http/httptest"
	"strings"
)

type backend struct {
	address string
	port    int
}

func at(s *httptest.Server) backend {
	a, _ := s.Listener.Addr().(*net.TCPAddr)
	return backend{a.IP.String(), a.Port}
}

func gatewayObject(name string, port int) string {
	return fmt.Sprintf(`apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: %s}
spec:
  gatewayClassName: penstock
  addresses: [{value: 127.0.0.1}]
  listeners: [{name: http, port: %d, protocol: HTTP}]
---
`, name, port)
}

// poolObjects returns an HTTPRoute of some Gateways for all paths below path, and the route's pool
// of model servers. Both have the same name.
func poolObjects(name, path string, gateways []string, servers ...backend) string {
	list := make([]string, len(servers))
	for i, s := range servers {
		list[i] = fmt.Sprintf("{address: %q, ports: [%d]}", s.address, s.port)
	}
	return fmt.Sprintf(`apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: %[1]s}
spec:
  parentRefs: [{name: %[2]s}]
  rules:
  - matches: [{path: {value: %[3]s}}]
    backendRefs: [{group: inference.networking.k8s.io, kind: InferencePool, name: %[1]s}]
---
apiVersion: inference.networking.k8s.io/v1
kind: InferencePool
metadata: {name: %[1]s}
spec: {selector: {matchLabels: {app: %[1]s}}, targetPorts: [{number: 8000}]}
---
apiVersion: penstock.dev/v1alpha1
kind: ModelServers
metadata: {name: %[1]s, labels: {app: %[1]s}}
spec: {servers: [%[4]s]}
---
`, name, strings.Join(gateways, "}, {name: "), path, strings.Join(list, ", "))
}

func limitObject(pool string) string {
	return fmt.Sprintf(`apiVersion: penstock.dev/v1alpha1
kind: PoolPolicy
metadata: {name: %[1]s}
spec: {targetRef: {name: %[1]s}, picker: {full: {inFlight: 4}}}
---
`, pool)
}
