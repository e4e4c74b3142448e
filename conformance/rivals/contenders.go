package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// penstockName and its second are Penstock, compared with itself.
const (
	penstockName = "Penstock"
	secondName   = "Penstock again"
	// serviceName is a route of Penstock's Envoy to a Service of the same servers, without a picker.
	serviceName = "its Envoy alone"
)

// contender is a router, and how it is started.
type contender struct {
	name string
	// command is the program and its arguments; empty: penstock up. Of a word {workers} is the list
	// of the servers' URLs, as further words; {commas} the same, joined by commas; {port} and
	// {port2} are free ports, of which the router serves at the first.
	command []string
}

// python is the command of a router of Python's packages, with its default settings.
func python(interpreter, module string) []string {
	return []string{
		interpreter, "-m", module, "--host", "127.0.0.1", "--port", "{port}",
		"--prometheus-host", "127.0.0.1", "--prometheus-port", "{port2}", "--worker-urls", "{workers}",
	}
}

// contenders returns Penstock twice and the rivals that are installed in a folder, and a line for
// each that is not. own are those of the user, as NAME=command.
func contenders(folder string, own []string) (all []contender, missing []string, err error) {
	all = []contender{{name: penstockName}, {name: secondName}}
	interpreter := filepath.Join(folder, "bin", "python")
	for _, r := range []struct{ name, pkg string }{{"sglang-router", "sglang_router"}, {"smg", "smg"}} {
		found, _ := filepath.Glob(filepath.Join(folder, "lib", "python3*", "site-packages", r.pkg, "launch_router.py"))
		if len(found) == 0 {
			missing = append(missing, fmt.Sprintf("%s is not installed in %q: "+
				"conformance/tools/rivals/install.sh installs it", r.name, folder))
			continue
		}
		all = append(all, contender{r.name, python(interpreter, r.pkg+".launch_router")})
	}
	for _, text := range own {
		if text == "" {
			continue
		}
		c, err := parseRival(text)
		if err != nil {
			return nil, nil, err
		}
		all = append(all, c)
	}
	seen := map[string]bool{}
	for _, c := range all {
		if seen[c.name] {
			return nil, nil, fmt.Errorf("two contenders have the name %s: choose another one for RIVAL", c.name)
		}
		seen[c.name] = true
	}
	return all, missing, nil
}

// parseRival reads NAME=command.
func parseRival(text string) (contender, error) {
	name, command, ok := strings.Cut(text, "=")
	words := strings.Fields(command)
	if name = strings.TrimSpace(name); !ok || name == "" || len(words) == 0 {
		return contender{}, fmt.Errorf("RIVAL %q: "+
			"write NAME=command, such as mine='router --port {port} --urls {commas}'", text)
	}
	has := func(place string) bool { return strings.Contains(command, place) }
	if !has("{port}") || !has("{workers}") && !has("{commas}") {
		return contender{}, errors.New("RIVAL: write {port} into the command, " +
			"and {workers} (words) or {commas} (one word)")
	}
	return contender{name, words}, nil
}

// arguments fills in a command.
func (c *contender) arguments(workers []string, port, port2 int) []string {
	var words []string
	commas := strings.Join(workers, ",")
	fill := strings.NewReplacer("{port}", fmt.Sprint(port), "{port2}", fmt.Sprint(port2), "{commas}", commas)
	for _, word := range c.command {
		if word == "{workers}" {
			words = append(words, workers...)
			continue
		}
		words = append(words, fill.Replace(word))
	}
	return words
}

// objects has the configuration of Penstock: a Gateway, a route, a pool without a policy, and a Service.
const objects = `apiVersion: gateway.networking.k8s.io/v1
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
  - backendRefs: [%s]
---
apiVersion: inference.networking.k8s.io/v1
kind: InferencePool
metadata: {name: model}
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
metadata: {name: model}
spec: {ports: [{name: http, port: 80}]}
`

const slice = `---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: model-%[1]d, labels: {kubernetes.io/service-name: model}}
addressType: IPv4
ports: [{name: http, port: %[1]d}]
endpoints: [{addresses: [127.0.0.1]}]
`

// writeObjects writes Penstock's configuration into a new folder.
func (c *contender) writeObjects(folder string, gateway int, servers []int) error {
	var list []string
	var endpoints []byte
	for _, port := range servers {
		list = append(list, fmt.Sprintf("{address: 127.0.0.1, ports: [%d]}", port))
		endpoints = fmt.Appendf(endpoints, slice, port)
	}
	backend := "{group: inference.networking.k8s.io, kind: InferencePool, name: model}"
	if c.name == serviceName {
		backend = "{name: model, port: 80}"
	}
	if err := os.Mkdir(folder, 0o700); err != nil {
		return err
	}
	text := append(fmt.Appendf(nil, objects, gateway, backend, strings.Join(list, ", ")), endpoints...)
	return os.WriteFile(filepath.Join(folder, "all.yaml"), text, 0o600)
}
