package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/penstock-project/penstock/conformance/bench/picks"
)

// taxed is a penstock up whose routes, by the header x-bench, lead to the same servers in different
// ways.
type taxed struct {
	routes  []string
	plane   *plane
	envoy   int // its process
	clients picks.Clients
	cpu     func() (time.Duration, error) // what is measured
}

const taxedObjects = `apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: gw}
spec:
  gatewayClassName: penstock
  addresses: [{value: 127.0.0.1}]
  listeners: [{name: http, port: %d, protocol: HTTP}]
---
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
apiVersion: inference.networking.k8s.io/v1
kind: InferencePool
metadata: {name: headers}
spec: {selector: {matchLabels: {app: model}}, targetPorts: [{number: 8000}]}
---
apiVersion: penstock.dev/v1alpha1
kind: PoolPolicy
metadata: {name: headers}
spec:
  targetRef: {name: headers}
  picker: {prefix: false}
---
apiVersion: inference.networking.k8s.io/v1
kind: InferencePool
metadata: {name: prompts}
spec: {selector: {matchLabels: {app: model}}, targetPorts: [{number: 8000}]}
---
apiVersion: penstock.dev/v1alpha1
kind: ModelServers
metadata: {name: model, labels: {app: model}}
spec:
  servers: [%s]
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

// measurePickTax measures the CPU of penstock up and its Envoy for a request of 1 KB to a pool, and
// to a Service.
func measurePickTax(ctx context.Context, c config, out report) error {
	models, err := picks.StartModels(pickModels)
	if err != nil {
		return err
	}
	defer models.Close()
	t := &taxed{routes: []string{"headers", "prompts", "service"}}
	stop, err := t.start(ctx, c, func(dir string, port int32) error {
		var servers []string
		slices := ""
		for _, m := range models.Addresses {
			servers = append(servers, fmt.Sprintf("{address: 127.0.0.1, ports: [%d]}", m.Port()))
			slices += fmt.Sprintf(taxedSlice, m.Port())
		}
		return os.WriteFile(filepath.Join(dir, "all.yaml"),
			fmt.Appendf(nil, taxedObjects+slices, port, strings.Join(servers, ", ")), 0o600)
	})
	if err != nil {
		return err
	}
	defer stop()
	t.cpu = func() (time.Duration, error) {
		ours, err := t.plane.cpu()
		if err != nil {
			return 0, err
		}
		envoy, err := cpuOf(t.envoy)
		return ours + envoy, err
	}
	costs, err := t.costs(ctx)
	if err != nil {
		return err
	}
	service := costs["service"].each()
	out("pick_tax", "", costs["headers"].each()/service)
	out("pick_tax", "ours", costs["headers"].each())
	out("pick_tax", "service", service)
	out("pick_tax_prefix", "", costs["prompts"].each()/service)
	out("pick_tax_prefix", "ours", costs["prompts"].each())
	return nil
}

// The turns of taxed are many and short: on a shared machine the speed of a core drifts by a third
// within seconds.
const (
	taxedTurns = 24
	taxedTurn  = 500 * time.Millisecond
)

// costs measures all routes, in turns.
func (t *taxed) costs(ctx context.Context) (map[string]cost, error) {
	costs := map[string]cost{}
	for turn := range taxedTurns + 1 {
		for _, route := range t.routes {
			next, err := t.saturate(ctx, route, turn)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", route, err)
			}
			if turn > 0 { // the first one warms
				before := costs[route]
				costs[route] = cost{before.cpu + next.cpu, before.answered + next.answered, before.lasted + next.lasted}
			}
		}
	}
	return costs, nil
}

// start runs the process with the files that write makes, and returns when all routes serve.
func (t *taxed) start(ctx context.Context, c config, write func(dir string, port int32) error) (stop func(),
	err error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	t.clients = picks.Clients{Address: fmt.Sprintf("127.0.0.1:%d", port), Connections: pickConnections}
	files, state, remove, err := folder(func(dir string) error { return write(dir, port) })
	if err != nil {
		return nil, err
	}
	if t.plane, err = startPlane(c, "up", files, state, "--concurrency", "1"); err != nil {
		remove()
		return nil, err
	}
	err = eventually(ctx, func() error {
		for _, route := range t.routes {
			if _, err := t.clients.Saturate(ctx, [][]byte{picks.Request(route, picks.Chat(1<<10, 0))},
				100*time.Millisecond); err != nil {
				return errors.Join(err, t.plane.running())
			}
		}
		return nil
	})
	if err == nil {
		t.envoy, err = child(t.plane.cmd.Process.Pid)
	}
	return func() { t.plane.stop(); remove() }, err
}

// saturate sends requests over a route for a turn.
func (t *taxed) saturate(ctx context.Context, route string, turn int) (cost, error) {
	var requests [][]byte
	for i := range pickConnections {
		requests = append(requests, picks.Request(route, picks.Chat(1<<10, turn*pickConnections+i)))
	}
	before, err := t.cpu()
	if err != nil {
		return cost{}, err
	}
	answered, err := t.clients.Saturate(ctx, requests, taxedTurn)
	if err != nil {
		return cost{}, err
	}
	time.Sleep(200 * time.Millisecond) // until the access log's last entries are counted
	after, err := t.cpu()
	return cost{after - before, answered, taxedTurn}, err
}

// child is the only child of a process.
func child(pid int) (int, error) {
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		return 0, err
	}
	var all []string
	for _, task := range tasks {
		text, err := os.ReadFile(task)
		if err != nil {
			return 0, err
		}
		all = append(all, strings.Fields(string(text))...)
	}
	if len(all) != 1 {
		return 0, fmt.Errorf("process %d has the children %v, want one", pid, all)
	}
	return strconv.Atoi(all[0])
}
