package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/penstock-project/penstock/conformance/bench/picks"
)

const taxedRoutes = `---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: all}
spec:
  parentRefs: [{name: gw}]
  rules:
  - matches: [{headers: [{name: x-bench, value: headers}]}]
    backendRefs: [{group: inference.networking.k8s.io, kind: InferencePool, name: headers}]
  - matches: [{headers: [{name: x-bench, value: prompts}]}]
    backendRefs: [{group: inference.networking.k8s.io, kind: InferencePool, name: prompts}]
  - matches: [{headers: [{name: x-bench, value: service}]}]
    backendRefs: [{name: service, port: 80}]
---
apiVersion: v1
kind: Service
metadata: {name: service}
spec: {ports: [{name: http, port: 80}]}
`

const taxedSlice = `---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: service-%[1]d, labels: {kubernetes.io/service-name: service}}
addressType: IPv4
ports: [{name: http, port: %[1]d}]
endpoints: [{addresses: [127.0.0.1]}]
`

func measurePickTax(ctx context.Context, c config, out report) error {
	models, err := picks.StartModels(pickModels)
	if err != nil {
		return err
	}
	defer models.Close()
	var ports []int
	objects := taxedRoutes
	for _, m := range models.Addresses {
		ports = append(ports, int(m.Port()))
		objects += fmt.Sprintf(taxedSlice, m.Port())
	}
	g, err := startGateway(c, objects+poolObjects("headers", ports)+policyObject("headers", "picker: {prefix: false}")+
		poolObjects("prompts", ports))
	if err != nil {
		return err
	}
	defer g.close()
	s := saturation{
		clients: picks.Clients{Address: fmt.Sprintf("127.0.0.1:%d", g.port), Connections: pickConnections},
		size:    1 << 10,
		// A shared core's speed drifts by a third within seconds, so turns are short.
		turns: 24, lasts: 500 * time.Millisecond,
		settle: 200 * time.Millisecond, // for Envoy to send the access log
	}
	routes := []string{"headers", "prompts", "service"}
	if err := g.serves(ctx, func() error {
		for _, route := range routes {
			if _, err := s.clients.Saturate(ctx, requests(route, s.size, 0), 100*time.Millisecond); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		return err
	}
	envoy, err := g.child()
	if err != nil {
		return err
	}
	s.cpu = func(string) (time.Duration, error) {
		ours, err := g.cpu()
		theirs, errEnvoy := cpuOf(envoy)
		return ours + theirs, errors.Join(err, errEnvoy)
	}
	costs, err := s.costs(ctx, routes...)
	if err != nil {
		return err
	}
	out("pick_tax", "", costs["headers"]/costs["service"])
	out("pick_tax", "ours", costs["headers"])
	out("pick_tax_prefix", "", costs["prompts"]/costs["service"])
	out("pick_tax_prefix", "ours", costs["prompts"])
	return nil
}
