package chart

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

const (
	chartDir = "../../../manifests/charts/penstock"
	plain    = "../../../manifests/install/penstock.yaml"
	system   = "penstock-system"
	header   = "# Penstock without Helm: what the chart in manifests/charts renders with its default values, in the " +
		"order in which Helm installs\n# it. `make golden` writes it. Gateway API and its inference extension are " +
		"installed before: see the README.\n"
)

// byHelm matches the label that only Helm adds.
var byHelm = regexp.MustCompile(`\n *app\.kubernetes\.io/managed-by: Helm`)

func TestChart_Lints(t *testing.T) {
	helm(t, "lint", chartDir, "--strict")
}

func TestChart_GoldenManifests(t *testing.T) {
	got := []byte(header + "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: " + system + "\n")
	for _, d := range render(t, nil) {
		got = fmt.Appendf(got, "---\n%s\n", byHelm.ReplaceAllString(d.text, ""))
	}
	if os.Getenv("PENSTOCK_GOLDEN") == "rewrite" {
		if err := os.WriteFile(plain, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(plain)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("want the plain manifest (-plain +chart)\n%s", diff)
	}
}

func TestChart_AnyValuesRenderValidObjects(t *testing.T) {
	for name, values := range map[string]map[string]any{
		"defaults": nil,
		"all": {
			"envoyImage": "envoy:1", "imagePullSecrets": []any{map[string]any{"name": "pull"}}, "replicas": 3,
			"nodeSelector": map[string]any{"a": "b"}, "tolerations": []any{map[string]any{"operator": "Exists"}},
			"affinity":          map[string]any{"nodeAffinity": map[string]any{}},
			"priorityClassName": "high", "podAnnotations": map[string]any{"a": "b"}, "logLevel": "debug",
			"gatewayClass": "edge",
			"fleet":        map[string]any{"replicas": 1}, "externalIPs": []any{"192.0.2.0/24", "2001:db8::/64"},
			"clientCA": "clients", "trustDomain": "cluster.local", "xdsAddress": "192.0.2.1:18000",
			"args": []any{"--drain-time=1m"},
		},
		"events and traces": {
			"replicas": 1, "kvEvents": map[string]any{
				"port": 5557, "from": []any{map[string]any{"namespaceSelector": map[string]any{}}},
			},
			"record": map[string]any{
				"volume": map[string]any{"persistentVolumeClaim": map[string]any{"claimName": "traces"}}, "bytes": 4e9,
			},
		},
		"a set": {
			"clusterSet": map[string]any{"enabled": true, "address": "east.example.com:18443",
				"createNamespaces": true},
		},
		"no class":    {"gatewayClass": ""},
		"no policies": {"admissionPolicy": "never", "networkPolicy": map[string]any{"enabled": false}},
		"more clients": {"networkPolicy": map[string]any{
			"xdsFrom":     []any{map[string]any{"ipBlock": map[string]any{"cidr": "192.0.2.0/24"}}},
			"metricsFrom": []any{map[string]any{"namespaceSelector": map[string]any{}}},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			kinds := map[string]int{}
			for _, d := range render(t, values) {
				kinds[check(t, d)]++
			}
			if with := name != "no policies"; (kinds["ValidatingAdmissionPolicy"] == 1) != with ||
				(kinds["NetworkPolicy"] == 1) != with {
				t.Errorf("kinds: got %v, want one ValidatingAdmissionPolicy and one NetworkPolicy: %t", kinds, with)
			}
			if kinds["Deployment"] != 1 || (kinds["Service"] != 1) != (name == "a set") || kinds["ClusterRole"] != 1 ||
				kinds["Role"] != 1 || (name == "all") != (kinds["EnvoyFleet"] == 1) {
				t.Errorf("kinds: got %v, want one Deployment, ClusterRole and Role, a Service of a set, an "+
					"EnvoyFleet of all", kinds)
			}
		})
	}
}

// In a namespaced installation, the ClusterRole has no rule about objects of routes or fleets, and
// Secrets of other namespaces cannot be read.
func TestChart_WatchNamespacesNeedsNoPermissionElsewhere(t *testing.T) {
	all := allRules(t, render(t, nil))[""]
	some := allRules(t, render(t, map[string]any{"watchNamespaces": []any{"a", "b"}}))
	for _, rule := range some[""] {
		if i := slices.Index(rule.Resources, "namespaces"); i >= 0 &&
			!slices.Equal(rule.ResourceNames, []string{"a", "b", system}) {
			t.Errorf("namespaces: got %+v, want a, b and %s", rule, system)
		}
		for _, resource := range rule.Resources {
			if !slices.Contains([]string{"clusterproperties", "clustersets", "clustersets/status",
				"customresourcedefinitions", "gatewayclasses", "gatewayclasses/status", "namespaces", "tokenreviews"},
				resource) {
				t.Errorf("the ClusterRole allows %v %s", rule.Verbs, resource)
			}
		}
	}
	for _, ns := range []string{"a", "b", system} {
		granted := append(slices.Clone(some[""]), some[ns]...)
		for i := range granted {
			granted[i].ResourceNames = nil
		}
		for _, rule := range all {
			if !slices.ContainsFunc(granted, func(r rbacv1.PolicyRule) bool { return cmp.Equal(r, rule) }) {
				t.Errorf("namespace %s: no rule %v, want it granted", ns, rule)
			}
		}
	}
	if len(some) != 4 {
		t.Errorf("rules of %d scopes, want 4", len(some))
	}
}

// allRules returns the rules of roles by namespace; "" is the ClusterRole's namespace.
func allRules(t *testing.T, documents []document) map[string][]rbacv1.PolicyRule {
	t.Helper()
	out := map[string][]rbacv1.PolicyRule{}
	for _, d := range documents {
		var role rbacv1.Role
		if err := yaml.Unmarshal([]byte(d.text), &role); err == nil &&
			(role.Kind == "ClusterRole" || role.Kind == "Role") {
			out[role.Namespace] = append(out[role.Namespace], role.Rules...)
		}
	}
	return out
}

func TestChart_ImageByDigest(t *testing.T) {
	digest := "sha256:" + strings.Repeat("0", 64)
	for _, d := range render(t, map[string]any{"image": "example.com/penstock:1@" + digest}) {
		// the pod's own image, and --penstock-image
		if strings.HasSuffix(d.file, "deployment.yaml") &&
			strings.Count(d.text, "example.com/penstock:1@"+digest) != 2 {
			t.Errorf("got\n%s\nwant the digest twice", d.text)
		}
	}
}

func TestRBAC_RulesNameExistingKinds(t *testing.T) {
	// earlier names of kinds, whose CRDs have files under the current names
	former := map[string]string{
		"inference.networking.x-k8s.io_inferencepools":         "inference.networking.k8s.io_inferencepools",
		"inference.networking.x-k8s.io_inferencemodelrewrites": "llm-d.ai_inferencemodelrewrites",
		"inference.networking.x-k8s.io_inferenceobjectives":    "llm-d.ai_inferenceobjectives",
	}
	for _, d := range render(t, nil) {
		var role rbacv1.ClusterRole
		if err := yaml.Unmarshal([]byte(d.text), &role); err != nil || role.Kind != "ClusterRole" {
			continue
		}
		for _, rule := range role.Rules {
			for _, group := range rule.APIGroups {
				if group == "networking.k8s.io" ||
					!strings.Contains(group, "networking") && group != "penstock.dev" && group != "llm-d.ai" {
					continue // a kind of Kubernetes
				}
				for _, resource := range rule.Resources {
					name := group + "_" + strings.TrimSuffix(resource, "/status")
					if today, ok := former[name]; ok {
						name = today
					}
					if _, err := os.Stat("../../../manifests/crds/" + name + ".yaml"); err != nil {
						t.Errorf("%s: %s of %s: %v", d.file, resource, group, err)
					}
				}
			}
		}
	}
}

func TestChart_RecordAndKVEventsReachProcess(t *testing.T) {
	values := map[string]any{
		"replicas": 1, "kvEvents": map[string]any{"port": 6557},
		"record": map[string]any{"volume": map[string]any{"emptyDir": map[string]any{"sizeLimit": "5Gi"}},
			"bytes": 4e9},
	}
	var d appsv1.Deployment
	var policy networkingv1.NetworkPolicy
	var service corev1.Service
	for _, document := range render(t, values) {
		for kind, object := range map[string]any{"kind: Deployment": &d, "kind: NetworkPolicy": &policy,
			"kind: Service\n": &service} {
			if strings.Contains(document.text, kind) {
				if err := yaml.UnmarshalStrict([]byte(document.text), object); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	c := d.Spec.Template.Spec.Containers[0]
	for _, arg := range []string{"--picker-kv-events=0.0.0.0:5557",
		"--record=/var/lib/penstock/record/$(POD_NAME).jsonl", "--record-bytes=4000000000"} {
		if !slices.Contains(c.Args, arg) {
			t.Errorf("arguments: got %q, want %s", c.Args, arg)
		}
	}
	if !slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool {
		return m.Name == "record" && m.MountPath == "/var/lib/penstock/record"
	}) ||
		!slices.ContainsFunc(d.Spec.Template.Spec.Volumes, func(v corev1.Volume) bool {
			return v.Name == "record" && v.EmptyDir != nil && v.EmptyDir.SizeLimit.String() == "5Gi"
		}) {
		t.Errorf("got mounts %v, volumes %v, want record with 5Gi", c.VolumeMounts, d.Spec.Template.Spec.Volumes)
	}
	if !slices.ContainsFunc(service.Spec.Ports, func(p corev1.ServicePort) bool {
		return p.Port == 6557 && p.TargetPort.StrVal == "kv-events"
	}) {
		t.Errorf("ports of the Service: got %v, want 6557 to kv-events", service.Spec.Ports)
	}
	if !slices.ContainsFunc(policy.Spec.Ingress, func(r networkingv1.NetworkPolicyIngressRule) bool {
		return len(r.Ports) == 1 && r.Ports[0].Port.StrVal == "kv-events" && len(r.From) == 0
	}) {
		t.Errorf("ingress: got %v, want kv-events from everywhere", policy.Spec.Ingress)
	}
}

func TestChart_MemoryLimitReachesProcess(t *testing.T) {
	for file, values := range map[string]map[string]any{
		"/deployment.yaml": nil,
		"/hub.yaml": {"hub": map[string]any{
			"enabled": true, "kubeconfigs": map[string]any{"secret": map[string]any{"secretName": "m"}},
		}},
	} {
		found := false
		for _, document := range render(t, values) {
			var d appsv1.Deployment
			if !strings.HasSuffix(document.file, file) || !strings.Contains(document.text, "kind: Deployment") {
				continue
			}
			if err := yaml.UnmarshalStrict([]byte(document.text), &d); err != nil {
				t.Fatal(err)
			}
			found = true
			container := d.Spec.Template.Spec.Containers[0]
			limit := slices.IndexFunc(container.Env, func(e corev1.EnvVar) bool { return e.Name == "MEMORY_LIMIT" })
			if limit < 0 || container.Env[limit].ValueFrom.ResourceFieldRef.Resource != "limits.memory" {
				t.Errorf("%s: got the environment %+v, want MEMORY_LIMIT of limits.memory", file, container.Env)
			}
			if !slices.Contains(container.Args, "--memory-limit=$(MEMORY_LIMIT)") {
				t.Errorf("%s: got the arguments %v, want --memory-limit=$(MEMORY_LIMIT)", file, container.Args)
			}
		}
		if !found {
			t.Errorf("%s has no Deployment, want one", file)
		}
	}
}

// check decodes an object and returns its kind. Unknown fields are errors if the kind is
// Kubernetes' own.
func check(t *testing.T, d document) string {
	t.Helper()
	var typed struct {
		Kind string `json:"kind"`
	}
	if err := yaml.Unmarshal([]byte(d.text), &typed); err != nil {
		t.Fatalf("%s: %v\n%s", d.file, err, d.text)
	}
	into := map[string]runtime.Object{
		"Deployment": &appsv1.Deployment{}, "StatefulSet": &appsv1.StatefulSet{}, "ConfigMap": &corev1.ConfigMap{},
		"Service": &corev1.Service{}, "ServiceAccount": &corev1.ServiceAccount{},
		"PodDisruptionBudget": &policyv1.PodDisruptionBudget{}, "ClusterRole": &rbacv1.ClusterRole{},
		"Role":               &rbacv1.Role{},
		"ClusterRoleBinding": &rbacv1.ClusterRoleBinding{}, "RoleBinding": &rbacv1.RoleBinding{},
		"NetworkPolicy":                    &networkingv1.NetworkPolicy{},
		"ValidatingAdmissionPolicy":        &admissionv1.ValidatingAdmissionPolicy{},
		"ValidatingAdmissionPolicyBinding": &admissionv1.ValidatingAdmissionPolicyBinding{},
	}[typed.Kind]
	if into == nil {
		return typed.Kind // a kind from a CRD
	}
	if err := yaml.UnmarshalStrict([]byte(d.text), into); err != nil {
		t.Errorf("%s: %v\n%s", d.file, err, d.text)
	}
	return typed.Kind
}

type document struct{ file, text string }

func render(t *testing.T, values map[string]any) (out []document) {
	t.Helper()
	return renderChart(t, chartDir, "penstock", system, values)
}

func renderChart(t *testing.T, dir, release, namespace string, values map[string]any) (out []document) {
	t.Helper()
	const source = "# Source: "
	text := "\n" + helm(t, "template", release, dir, "--namespace", namespace, "--values", written(t, values))
	for _, part := range strings.Split(text, "\n---\n"+source)[1:] {
		name, object, _ := strings.Cut(part, "\n")
		out = append(out, document{name, strings.TrimSpace(object)})
	}
	if len(out) == 0 {
		t.Fatalf("nothing was rendered, want objects: %s", text)
	}
	return out
}

func written(t *testing.T, values map[string]any) (file string) {
	t.Helper()
	raw, err := yaml.Marshal(values)
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(file, raw, 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

func helm(t *testing.T, args ...string) string {
	t.Helper()
	out, err := runHelm(t, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// runHelm runs Helm with a separate home. The error has Helm's output.
func runHelm(t *testing.T, args ...string) (string, error) {
	t.Helper()
	program, err := filepath.Abs("../../../.tools/bin/helm")
	if err == nil {
		_, err = os.Stat(program)
	}
	if err != nil {
		t.Fatalf("no Helm: run make helm (%v)", err)
	}
	cmd := exec.CommandContext(t.Context(), program, args...)
	home := t.TempDir()
	cmd.Env = append(os.Environ(), "HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home)
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("helm %s: %w\n%s%s", strings.Join(args, " "), err, out, errs.String())
	}
	return string(out), nil
}
