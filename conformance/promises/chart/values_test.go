package chart

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

func charts() []chart {
	digest := "sha256:" + strings.Repeat("0", 64)
	peer := []any{map[string]any{"namespaceSelector": map[string]any{}}}
	resources := map[string]any{"requests": map[string]any{"cpu": "1m"}, "limits": map[string]any{"memory": "3Gi"}}
	pod := map[string]any{
		"image":            "registry.example.com/penstock:1@" + digest,
		"imagePullSecrets": []any{map[string]any{"name": "pull"}}, "nodeSelector": map[string]any{"a": "b"},
		"tolerations": []any{map[string]any{"operator": "Exists"}},
	}
	more := map[string]any{
		"affinity": map[string]any{"podAntiAffinity": map[string]any{}}, "priorityClassName": "system-node-critical",
		"podAnnotations": map[string]any{"a": "b"}, "resources": resources, "logLevel": "debug",
		"allowedCIDRs": []any{"10.0.0.0/8"}, "args": []any{"--drain-time=1m"},
	}
	program := map[string]any{
		"replicas": 3, "image": "example.com/other:1", "command": []any{"/other"}, "args": []any{"--one"},
		"env":                []any{map[string]any{"name": "A", "value": "b"}},
		"podSecurityContext": map[string]any{"runAsUser": 1}, "securityContext": map[string]any{"runAsUser": 2},
		"probe": "/other", "resources": resources,
	}
	with := func(all ...map[string]any) map[string]any {
		out := map[string]any{}
		for _, values := range all {
			maps.Copy(out, values)
		}
		return out
	}
	one := with(program) // a token store has one process
	delete(one, "replicas")
	return []chart{
		{chartDir, system, with(pod, more, map[string]any{
			"envoyImage": "envoy:1", "replicas": 1, "watchNamespaces": []any{"a"}, "admissionPolicy": "always",
			"networkPolicy": map[string]any{"xdsFrom": peer, "metricsFrom": peer},
			"monitoring": map[string]any{"podMonitor": true, "rules": true, "dashboards": true,
				"labels": map[string]any{"release": "prometheus"}},
			"gatewayClass": "edge", "fleet": map[string]any{"replicas": 1}, "externalIPs": []any{"192.0.2.0/24"},
			"deniedCIDRs": []any{"10.1.0.0/16"}, "allowExternalName": true, "clientCA": "clients",
			"fetchHosts":  []any{"sso.example.com"},
			"trustDomain": "cluster.local", "xdsAddress": "192.0.2.1:18000",
			"clusterSet": map[string]any{"enabled": true, "port": 18444, "address": "east.example.com:18444",
				"serviceType": "NodePort", "serviceAnnotations": map[string]any{"a": "b"}, "from": peer,
				"createNamespaces": true},
			"hub": map[string]any{"enabled": true, "replicas": 1,
				"kubeconfigs": map[string]any{"secret": map[string]any{"secretName": "members"}},
				"profiles": map[string]any{"configMap": "p",
					"plugins": map[string]any{"emptyDir": map[string]any{}}},
				"drainTime": "1m", "takeOver": true, "resources": resources, "args": []any{"--log-level=debug"}},
			"kvEvents": map[string]any{"port": 5557, "from": peer},
			"record":   map[string]any{"volume": map[string]any{"emptyDir": map[string]any{}}, "bytes": 4e9},
			"usage":    map[string]any{"databaseSecret": "usage"},
		})},
		{pickerDir, "default", with(pod, more, map[string]any{
			"replicas": 3,
			"pool": map[string]any{"name": "chat", "selector": map[string]any{"app": "vllm"},
				"targetPorts": []any{8001}, "failureMode": "FailOpen"},
			"config": "kind: EndpointPickerConfig\n", "tls": map[string]any{"secret": "epp", "clientCA": "clients"},
			"peers":         map[string]any{"secret": "peers"},
			"networkPolicy": map[string]any{"gateways": peer, "metricsFrom": peer},
		})},
		{externalDir, "default", with(pod, map[string]any{
			"processor": with(program, map[string]any{"encoding": "cl100k_base"}), "router": program,
			"tokens": with(one, map[string]any{"maxBytes": "1Gi", "ttl": "5m"}),
			"workers": with(program, map[string]any{"port": 8001, "model": "chat", "kvCacheTokens": 1024,
				"selector": map[string]any{"app": "vllm"}}),
			"pool": map[string]any{"route": false},
			"networkPolicy": map[string]any{"penstockNamespace": "other", "pickers": peer, "proxies": peer,
				"metricsFrom": peer},
		})},
	}
}

type chart struct {
	dir, namespace string
	// most has a non-default value for each value in values.yaml, except for switches.
	most map[string]any
}

func (c chart) name() string { return filepath.Base(c.dir) }

func (c chart) read(t *testing.T, name string) []byte {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(c.dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// leaves returns the paths of values. A map whose keys are free, or are Kubernetes', is one value.
func leaves(values map[string]any) (out []string) {
	for _, key := range slices.Sorted(maps.Keys(values)) {
		inner, ok := values[key].(map[string]any)
		if !ok || len(inner) == 0 || key == "resources" {
			out = append(out, key)
			continue
		}
		for _, leaf := range leaves(inner) {
			out = append(out, key+"."+leaf)
		}
	}
	return out
}

func lookUp(values map[string]any, path string) (any, bool) {
	for {
		key, rest, more := strings.Cut(path, ".")
		value, ok := values[key]
		if !ok || !more {
			return value, ok
		}
		if values, ok = value.(map[string]any); !ok {
			return nil, false
		}
		path = rest
	}
}

func (c chart) defaults(t *testing.T) map[string]any {
	t.Helper()
	var values map[string]any
	if err := yaml.Unmarshal(c.read(t, "values.yaml"), &values); err != nil {
		t.Fatal(err)
	}
	return values
}

func TestValues_TemplatesReadEveryValue(t *testing.T) {
	t.Parallel()
	for _, c := range charts() {
		templates := ""
		files, err := filepath.Glob(filepath.Join(c.dir, "templates", "*"))
		if err != nil || len(files) == 0 {
			t.Fatalf("templates: got %v, %d, want some", err, len(files))
		}
		for _, file := range files {
			templates += string(c.read(t, filepath.Join("templates", filepath.Base(file))))
		}
		for _, leaf := range leaves(c.defaults(t)) {
			group, name, _ := strings.Cut(leaf, ".")
			// In the external chart, one template makes the pods of all programs.
			shared := strings.Contains(templates, `"values" .Values.`+group+" ") &&
				regexp.MustCompile(`\.values\.`+name+`\b`).MatchString(templates)
			if !shared && !regexp.MustCompile(`\.Values\.`+regexp.QuoteMeta(leaf)+`\b`).MatchString(templates) {
				t.Errorf("chart %s: no template reads %s", c.name(), leaf)
			}
		}
	}
}

func TestValues_TriedWithEveryValue(t *testing.T) {
	t.Parallel()
	for _, c := range charts() {
		defaults := c.defaults(t)
		for _, leaf := range leaves(defaults) {
			before, _ := lookUp(defaults, leaf)
			if _, on := before.(bool); on {
				continue
			}
			if value, ok := lookUp(c.most, leaf); !ok || cmp.Equal(value, before) {
				t.Errorf("chart %s: %s has no other value in charts()", c.name(), leaf)
			}
		}
	}
}

// The schema must have exactly the values of values.yaml, because Helm rejects a value that the
// schema lacks.
func TestValues_SchemaHasEveryValue(t *testing.T) {
	t.Parallel()
	for _, c := range charts() {
		var schema map[string]any
		if err := json.Unmarshal(c.read(t, "values.schema.json"), &schema); err != nil {
			t.Fatal(err)
		}
		var inSchema func(at map[string]any, prefix string) []string
		inSchema = func(at map[string]any, prefix string) (out []string) {
			properties, _ := at["properties"].(map[string]any)
			for _, key := range slices.Sorted(maps.Keys(properties)) {
				property := properties[key].(map[string]any)
				if _, group := property["properties"]; group {
					out = append(out, inSchema(property, prefix+key+".")...)
					continue
				}
				out = append(out, prefix+key)
			}
			return out
		}
		got := slices.DeleteFunc(inSchema(schema, ""), func(path string) bool {
			return path == "global" || path == "hub.members" // global is Helm's; hub.members has an explaining error
		})
		if want := leaves(c.defaults(t)); !slices.Equal(got, want) {
			t.Errorf("chart %s: the schema has\n%v\nwant the values of values.yaml\n%v", c.name(), got, want)
		}
	}
	for wrong, named := range map[string]string{
		"replica=3": "replica", "replicas=many": "replicas", "monitoring.podMonitor=yes": "podMonitor",
		"networkPolicy.xdsfrom[0].podSelector.a=b": "xdsfrom", "logLevel=verbose": "logLevel",
		"hub.drainTime=10": "drainTime", "allowedCIDRs[0]=10.0.0.1": "allowedCIDRs",
		"kvEvents.port=70000": "kvEvents", "image=penstock@sha256:1b2c": "image",
	} {
		if _, err := runHelm(t, "template", chartDir, "--set", wrong); err == nil ||
			!strings.Contains(err.Error(), "schema") || !strings.Contains(err.Error(), named) {
			t.Errorf("--set %s: got %v, want an error of the schema about %s", wrong, err, named)
		}
	}
	if _, err := runHelm(t, "template", chartDir, "--set", "global.a=b"); err != nil {
		t.Errorf("a chart that has this one as a dependency: %v", err)
	}
}

func TestValues_EveryValueIsDocumented(t *testing.T) {
	t.Parallel()
	line := regexp.MustCompile(`^( *)([A-Za-z]+):`)
	for _, c := range charts() {
		comments, before, seen := "", "", 0
		for _, text := range strings.Split(string(c.read(t, "values.yaml")), "\n") {
			switch m := line.FindStringSubmatch(text); {
			case strings.HasPrefix(strings.TrimSpace(text), "#"):
				comments += text + "\n"
			case m == nil || len(m[1]) > 2 || slices.Contains([]string{"requests", "limits"}, m[2]): // Kubernetes' keys
			case strings.HasPrefix(strings.TrimSpace(before), "#"):
				seen++
			default:
				seen++
				if !regexp.MustCompile(`\b` + m[2] + `\b`).MatchString(comments) {
					t.Errorf("chart %s: no comment describes %s", c.name(), strings.TrimSpace(text))
				}
			}
			before = text
		}
		if seen < 15 {
			t.Errorf("chart %s: %d values are found, want at least 15", c.name(), seen)
		}
	}
}
