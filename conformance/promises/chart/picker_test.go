package chart

import (
	"os"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	inferencev1 "sigs.k8s.io/gateway-api-inference-extension/api/v1"
	"sigs.k8s.io/yaml"
)

const pickerDir = "../../../manifests/charts/picker"

// servers is the chart's required value: the labels of the model servers.
var servers = map[string]any{"selector": map[string]any{"app": "vllm"}}

func picker(t *testing.T, values map[string]any) objects {
	t.Helper()
	out := objects{}
	for _, d := range renderChart(t, pickerDir, "qwen", "default", values) {
		kind := check(t, d)
		var named struct{ Metadata struct{ Name string } }
		if err := yaml.Unmarshal([]byte(d.text), &named); err != nil {
			t.Fatal(err)
		}
		out[kind+" "+named.Metadata.Name] = d.text
	}
	return out
}

func TestPickerChart_Lints(t *testing.T) {
	helm(t, "lint", pickerDir, "--strict", "--set", "pool.selector.app=vllm")
}

func TestPickerChart_AnyValuesRenderValidObjects(t *testing.T) {
	always := []string{"Role qwen-epp", "RoleBinding qwen-epp", "Service qwen-epp", "ServiceAccount qwen-epp"}
	peer := []any{map[string]any{"namespaceSelector": map[string]any{}}}
	for name, c := range map[string]struct {
		values map[string]any
		more   []string
	}{
		"defaults": {map[string]any{"pool": servers},
			[]string{"Deployment qwen-epp", "InferencePool qwen", "NetworkPolicy qwen-epp",
				"PodDisruptionBudget qwen-epp"}},
		"all": {map[string]any{
			"pool": map[string]any{"name": "chat", "selector": servers["selector"], "targetPorts": []any{8000, 8001},
				"failureMode": "FailOpen"}, "replicas": 3,
			"imagePullSecrets": []any{map[string]any{"name": "pull"}}, "nodeSelector": map[string]any{"a": "b"},
			"tolerations": []any{map[string]any{"operator": "Exists"}},
			"affinity":    map[string]any{"nodeAffinity": map[string]any{}}, "priorityClassName": "high",
			"podAnnotations": map[string]any{"a": "b"},
			"image":          "example.com/penstock:1@sha256:" + strings.Repeat("0", 64),
			"config":         "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\n",
			"tls":            map[string]any{"secret": "epp", "clientCA": "clients"},
			"peers":          map[string]any{"secret": "peers"},
			"networkPolicy":  map[string]any{"gateways": peer, "metricsFrom": peer},
			"allowedCIDRs":   []any{"10.0.0.0/8"},
			"args":           []any{"--v=4"},
		},
			[]string{"ConfigMap qwen-epp", "InferencePool chat", "NetworkPolicy qwen-epp",
				"PodDisruptionBudget qwen-epp", "Service qwen-epp-peers", "StatefulSet qwen-epp"}},
		"a pool that exists": {map[string]any{
			"pool": map[string]any{"create": false, "name": "chat"}, "replicas": 1,
			"networkPolicy": map[string]any{"enabled": false}, "tls": map[string]any{"enabled": false},
		}, []string{"Deployment qwen-epp"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := picker(t, c.values)
			want := append(slices.Clone(always), c.more...)
			for _, key := range want {
				if got[key] == "" {
					t.Errorf("got no %s, want it", key)
				}
			}
			if len(got) != len(want) {
				t.Errorf("%d objects, want %v", len(got), want)
			}
		})
	}
	if out, err := runHelm(t, "template", "qwen", pickerDir); err == nil ||
		!strings.Contains(err.Error(), "pool.selector is empty") {
		t.Errorf("without a selector: got %v %s, want an error that pool.selector is empty", err, out)
	}
}

func TestPickerChart_PortsAndProbesAreThoseOfAnEPP(t *testing.T) {
	got := picker(t, map[string]any{"pool": servers, "config": "kind: EndpointPickerConfig\n"})
	var pool inferencev1.InferencePool
	var service corev1.Service
	var d appsv1.Deployment
	var policy networkingv1.NetworkPolicy
	got.into(t, "InferencePool qwen", &pool)
	got.into(t, "Service qwen-epp", &service)
	got.into(t, "Deployment qwen-epp", &d)
	got.into(t, "NetworkPolicy qwen-epp", &policy)
	if ref := pool.Spec.EndpointPickerRef; ref == nil || string(ref.Name) != service.Name ||
		int32(ref.Port.Number) != service.Spec.Ports[0].Port || service.Spec.Ports[0].Port != 9002 {
		t.Errorf("the pool names %+v, and the Service has %+v, want the same name and port 9002", ref,
			service.Spec.Ports)
	}
	pod := d.Spec.Template.Spec
	c := pod.Containers[0]
	for _, arg := range []string{"picker", "--pool-name=qwen", "--pool-namespace=default",
		"--config-file=/etc/penstock/config/config.yaml"} {
		if !slices.Contains(c.Args, arg) {
			t.Errorf("arguments: got %q, want %s", c.Args, arg)
		}
	}
	if c.Image != imageOf(t, chartDir) {
		t.Errorf("it runs %s, want %s as in penstock's chart", c.Image, imageOf(t, chartDir))
	}
	ports := map[string]int32{}
	for _, p := range c.Ports {
		ports[p.Name] = p.ContainerPort
	}
	for _, rule := range policy.Spec.Ingress {
		for _, p := range rule.Ports {
			if ports[p.Port.String()] == 0 {
				t.Errorf("the NetworkPolicy is for port %s, want one of the pod's %v", p.Port, ports)
			}
		}
	}
	if ports["grpc"] != 9002 || ports["grpc-health"] != 9003 || ports["metrics"] != 9090 ||
		len(policy.Spec.Ingress) != 3 {
		t.Errorf("got ports %v, rules %+v, want grpc 9002, grpc-health 9003, metrics 9090, and 3 rules", ports,
			policy.Spec.Ingress)
	}
	if g := c.ReadinessProbe.GRPC; g == nil || g.Port != 9003 || *g.Service != "readiness" ||
		c.LivenessProbe.GRPC == nil {
		t.Errorf("got probes %+v %+v, want gRPC ones, readiness at 9003", c.ReadinessProbe, c.LivenessProbe)
	}
	if !*pod.SecurityContext.RunAsNonRoot || !*c.SecurityContext.ReadOnlyRootFilesystem ||
		c.Resources.Limits.Memory().IsZero() || *pod.TerminationGracePeriodSeconds <= 120 {
		t.Errorf("got %+v %+v, want no root, a read-only file system, a limit of memory, a grace period above 120 s",
			pod, c)
	}
}

func TestPickerChart_RoleReadsOneNamespaceAlone(t *testing.T) {
	for key, text := range picker(t, map[string]any{"pool": servers}) {
		if strings.HasPrefix(key, "ClusterRole") {
			t.Errorf("got a %s, want none", key)
		}
		var role rbacv1.Role
		if err := yaml.Unmarshal([]byte(text), &role); err != nil || role.Kind != "Role" {
			continue
		}
		for _, rule := range role.Rules {
			if !slices.Equal(rule.Verbs, []string{"list", "watch"}) || slices.Contains(rule.Resources, "secrets") ||
				slices.Contains(rule.Resources, "*") {
				t.Errorf("got %+v, want list and watch alone, and no secrets", rule)
			}
		}
	}
}

func TestPickerChart_PeersAreThePodsOfAStatefulSet(t *testing.T) {
	var set appsv1.StatefulSet
	var policy networkingv1.NetworkPolicy
	got := picker(t, map[string]any{"pool": servers, "replicas": 3, "peers": map[string]any{"secret": "peers"}})
	got.into(t, "StatefulSet qwen-epp", &set)
	got.into(t, "NetworkPolicy qwen-epp", &policy)
	want :=
		"--peers=qwen-epp-0.qwen-epp-peers.default.svc:18001,qwen-epp-1.qwen-epp-peers.default.svc:18001,qwen-epp-2.qwen-epp-peers.default.svc:18001"
	if args := set.Spec.Template.Spec.Containers[0].Args; !slices.Contains(args, want) ||
		set.Spec.ServiceName != "qwen-epp-peers" {
		t.Errorf(`%s %q, want one of them to be %q and "qwen-epp-peers"`, set.Spec.ServiceName, args, want)
	}
	last := policy.Spec.Ingress[len(policy.Spec.Ingress)-1]
	if last.Ports[0].Port.String() != "peers" || len(last.From) != 1 || last.From[0].NamespaceSelector != nil ||
		len(last.From[0].PodSelector.MatchLabels) == 0 {
		t.Errorf("who reaches the port of peers: got %+v, want pods of this namespace by labels", last)
	}
}

func imageOf(t *testing.T, dir string) string {
	t.Helper()
	raw, err := os.ReadFile(dir + "/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var values struct{ Image string }
	if err := yaml.Unmarshal(raw, &values); err != nil {
		t.Fatal(err)
	}
	return values.Image
}
