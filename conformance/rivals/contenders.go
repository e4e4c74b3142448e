package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

const (
	// secondName is a second Penstock, which shows the noise.
	penstockName = "Penstock"
	secondName   = "Penstock again"
	smgName      = "smg"
)

type contender struct {
	name string
	// command is the router's program with its arguments; empty: the contender is penstock up.
	// {port} is the router's port, and {port2} another free port. {workers} are the servers' URLs
	// as separate words, {commas} the URLs joined by commas, and {config} is the path of a file
	// with config's text.
	command []string
	config  func(port int, servers []int) string // returns {config}'s text, or penstock up's objects
	env     []string
}

// rivals are routers in Python packages. best are the settings that their documentation recommends
// for prefix caches: https://docs.sglang.io/advanced_features/sgl_model_gateway.html, and smg's
// docs/getting-started/load-balancing.md. By default, both use the strategy cache_aware.
var rivals = []struct {
	name, pkg string
	best      []string
}{
	{"sglang-router", "sglang_router", bestSettings},
	{smgName, "smg", bestSettings},
}

var bestSettings = []string{
	"--policy", "cache_aware", "--cache-threshold", "0.5", "--balance-abs-threshold", "32",
	"--balance-rel-threshold", "1.5",
}

type setting string

const (
	defaults  setting = "default settings"
	best      setting = "the settings that their documentation recommends"
	ourFolder         = "routers"
)

// contenders returns Penstock twice, the installed rivals, and the user's rivals from own
// (NAME=command). missing has a line for each rival that is not installed.
func contenders(folder string, by setting, own []string) (all []contender, missing []string, err error) {
	all = []contender{{name: penstockName, config: pool}, {name: secondName, config: pool}}
	folder = filepath.Join(folder, ourFolder)
	for _, r := range rivals {
		found, _ := filepath.Glob(filepath.Join(folder, "lib", "python3*", "site-packages", r.pkg, "launch_router.py"))
		if len(found) == 0 {
			missing = append(missing, notInstalled(r.name, folder))
			continue
		}
		command := []string{
			filepath.Join(folder, "bin", "python"), "-m", r.pkg + ".launch_router", "--host", "127.0.0.1", "--port",
			"{port}",
			"--prometheus-host", "127.0.0.1", "--prometheus-port", "{port2}", "--worker-urls", "{workers}",
		}
		if by == best {
			command = append(command, r.best...)
		}
		all = append(all, contender{name: r.name, command: command})
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

func notInstalled(name, folder string) string {
	return fmt.Sprintf("%s is not installed in %q: conformance/tools/rivals/install.sh installs it", name, folder)
}

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
	return contender{name: name, command: words}, nil
}

func (c *contender) arguments(workers []string, port, port2 int, config string) []string {
	var words []string
	commas := strings.Join(workers, ",")
	fill := strings.NewReplacer(
		"{port}", fmt.Sprint(port), "{port2}", fmt.Sprint(port2), "{commas}", commas, "{config}", config)
	for _, word := range c.command {
		if word == "{workers}" {
			words = append(words, workers...)
			continue
		}
		words = append(words, fill.Replace(word))
	}
	return words
}

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

const policy = `---
apiVersion: penstock.dev/v1alpha1
kind: PoolPolicy
metadata: {name: model}
spec:
  targetRef: {name: model}
  picker: {prefix: false}
`

func written(port int, servers []int, backend string) string {
	var list []string
	var endpoints []byte
	for _, server := range servers {
		list = append(list, fmt.Sprintf("{address: 127.0.0.1, ports: [%d]}", server))
		endpoints = fmt.Appendf(endpoints, slice, server)
	}
	return fmt.Sprintf(objects, port, backend, strings.Join(list, ", ")) + string(endpoints)
}

const toPool = "{group: inference.networking.k8s.io, kind: InferencePool, name: model}"

func pool(port int, servers []int) string { return written(port, servers, toPool) }

func poolByHeaders(port int, servers []int) string { return written(port, servers, toPool) + policy }

func service(port int, servers []int) string {
	return written(port, servers, "{name: model, port: 80}")
}

const (
	plainName   = "plain Envoy"
	echoName    = "plain Envoy, echo"
	serviceName = "its Envoy alone"
	headersName = "without prompts"
	liteLLMName = "LiteLLM"
)

// parts returns the contenders of which only the overhead is measured. echo is the port of an
// external processor. missing has a line if LiteLLM is not installed.
func parts(envoy, folder string, echo int) (all []contender, missing []string) {
	command := []string{envoy, "-c", "{config}", "--log-level", "error", "--use-dynamic-base-id"}
	all = []contender{
		{name: plainName, command: command, config: plainEnvoy(0)},
		{name: echoName, command: command, config: plainEnvoy(echo)},
		{name: serviceName, config: service},
		{name: headersName, config: poolByHeaders},
	}
	folder = filepath.Join(folder, "litellm")
	program := filepath.Join(folder, "bin", "litellm")
	if _, err := os.Stat(program); err != nil {
		return all, []string{notInstalled(liteLLMName, folder)}
	}
	return append(all, contender{
		name: liteLLMName, config: liteLLM,
		command: []string{program, "--config", "{config}", "--host", "127.0.0.1", "--port", "{port}", "--telemetry",
			"False"},
		env: []string{"LITELLM_LOCAL_MODEL_COST_MAP=True",
			"LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY=true"},
	}), nil
}

// plainEnvoy returns the configuration of an Envoy without Penstock, which calls the external
// processor at port echo; 0: none.
func plainEnvoy(echo int) func(port int, servers []int) string {
	return func(port int, servers []int) string {
		var endpoints []string
		for _, server := range servers {
			endpoints = append(endpoints, fmt.Sprintf(
				"{endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: %d}}}}", server))
		}
		filter, cluster := "", ""
		if echo != 0 {
			filter, cluster = echoFilter, fmt.Sprintf(echoCluster, echo)
		}
		return fmt.Sprintf(plainConfig, port, filter, strings.Join(endpoints, ", "), cluster)
	}
}

const plainConfig = `static_resources:
  listeners:
  - address: {socket_address: {address: 127.0.0.1, port_value: %d}}
    filter_chains:
    - filters:
      - name: http
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: http
          http_filters:%s
          - name: router
            typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}
          route_config:
            virtual_hosts:
            - {name: all, domains: ["*"], routes: [{match: {prefix: /}, route: {cluster: model, timeout: 0s}}]}
  clusters:
  - name: model
    connect_timeout: 5s
    load_assignment: {cluster_name: model, endpoints: [{lb_endpoints: [%s]}]}
%s`

const echoFilter = `
          - name: echo
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.ext_proc.v3.ExternalProcessor
              grpc_service: {envoy_grpc: {cluster_name: echo}}
              processing_mode: {request_header_mode: SEND, response_header_mode: SKIP, request_body_mode: BUFFERED}
              message_timeout: 10s
              allow_content_length_header: true`

const echoCluster = `  - name: echo
    connect_timeout: 5s
    load_assignment:
      cluster_name: echo
      endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: %d}}}}]}]
    typed_extension_protocol_options:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
        explicit_http_config: {http2_protocol_options: {}}
`

func liteLLM(_ int, servers []int) string {
	out := "model_list:\n"
	for _, server := range servers {
		out += fmt.Sprintf("- model_name: %[1]s\n  litellm_params: {model: openai/%[1]s, "+
			"api_base: \"http://127.0.0.1:%[2]d/v1\", api_key: none}\n", model, server)
	}
	return out
}

func (c *contender) writeConfig(folder string, port int, servers []int) (string, error) {
	file := filepath.Join(folder, "all.yaml")
	if c.config == nil {
		return file, nil
	}
	if err := os.Mkdir(folder, 0o700); err != nil {
		return "", err
	}
	return file, os.WriteFile(file, []byte(c.config(port, servers)), 0o600)
}
