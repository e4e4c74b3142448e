package chart

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/yaml"
)

const externalDir = "../../../manifests/charts/external"

type objects map[string]string

func (o objects) into(t *testing.T, key string, object any) {
	t.Helper()
	if err := yaml.UnmarshalStrict([]byte(o[key]), object); err != nil || o[key] == "" {
		t.Fatalf("%s: got %v\n%s\nwant an object", key, err, o[key])
	}
}

func (o objects) container(t *testing.T, component string) (corev1.PodSpec, corev1.Container) {
	t.Helper()
	var d appsv1.Deployment
	o.into(t, "Deployment external-"+component, &d)
	return d.Spec.Template.Spec, d.Spec.Template.Spec.Containers[0]
}

func external(t *testing.T, values map[string]any) objects {
	t.Helper()
	out := objects{}
	for _, d := range renderChart(t, externalDir, "external", "default", values) {
		check(t, d)
		var named struct {
			Kind     string
			Metadata struct{ Name string }
		}
		if err := yaml.Unmarshal([]byte(d.text), &named); err != nil {
			t.Fatal(err)
		}
		out[named.Kind+" "+named.Metadata.Name] = d.text
	}
	return out
}

func TestExternalChart_Lints(t *testing.T) {
	helm(t, "lint", externalDir, "--strict")
}

func TestExternalChart_AnyValuesRenderValidObjects(t *testing.T) {
	all := []string{
		"Deployment external-processor", "Deployment external-router", "Deployment external-tokens",
		"Deployment external-workers", "InferencePool external", "PoolPolicy external",
		"NetworkPolicy external-processor", "NetworkPolicy external-router", "NetworkPolicy external-tokens",
		"NetworkPolicy external-workers",
		"PodDisruptionBudget external-processor", "Service external-processor", "Service external-router",
		"Service external-tokens", "Service external-workers",
	}
	peer := []any{map[string]any{"namespaceSelector": map[string]any{}}}
	for name, c := range map[string]struct {
		values  map[string]any
		without []string // parts of keys that must be absent
	}{
		"defaults": {},
		"all": {values: map[string]any{
			"imagePullSecrets": []any{map[string]any{"name": "pull"}}, "nodeSelector": map[string]any{"a": "b"},
			"tolerations": []any{map[string]any{"operator": "Exists"}},
			"processor": map[string]any{"replicas": 3, "encoding": "cl100k_base", "args": []any{"--timeout=1s"},
				"env": []any{map[string]any{"name": "A", "value": "b"}}},
			"networkPolicy": map[string]any{"pickers": peer, "proxies": peer, "metricsFrom": peer},
		}},
		"no router":      {map[string]any{"router": map[string]any{"enabled": false}}, []string{"-router"}},
		"no token store": {map[string]any{"tokens": map[string]any{"enabled": false}}, []string{"-tokens"}},
		"no pool": {map[string]any{"pool": map[string]any{"create": false}},
			[]string{"InferencePool", "PoolPolicy"}},
		"no processor": {map[string]any{"pool": map[string]any{"processor": false}}, []string{"PoolPolicy"}},
		"no policies": {map[string]any{"networkPolicy": map[string]any{"enabled": false}},
			[]string{"NetworkPolicy"}},
		"workers outside": {
			map[string]any{"workers": map[string]any{"enabled": false, "selector": map[string]any{"app": "vllm"}}},
			[]string{"Deployment external-workers", "NetworkPolicy external-workers"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := external(t, c.values)
			for _, key := range all {
				want := !slices.ContainsFunc(c.without, func(part string) bool { return strings.Contains(key, part) })
				if _, has := got[key]; has != want {
					t.Errorf("%s: %v, want %v", key, has, want)
				}
			}
			if len(got) > len(all) {
				t.Errorf("%d objects, want at most %d", len(got), len(all))
			}
		})
	}
}

func TestExternalChart_ProgramsFindOneAnother(t *testing.T) {
	got := external(t, nil)
	for component, want := range map[string][]string{
		"processor": {"processor", "--router=$(ROUTER_URL)", "--tokens=$(TOKENS_URL)"},
		"router":    {"router", "--workers=$(WORKERS)", "--cache-tokens=65536"},
		"tokens":    {"tokens", "--max-bytes=256Mi"}, "workers": {"sim", "--tokens=$(TOKENS_URL)", "--port=8000"},
	} {
		pod, c := got.container(t, component)
		for _, arg := range want {
			if !slices.Contains(c.Args, arg) {
				t.Errorf("%s: got the arguments %q, want %s", component, c.Args, arg)
			}
		}
		if pod.AutomountServiceAccountToken == nil || *pod.AutomountServiceAccountToken ||
			!*pod.SecurityContext.RunAsNonRoot || !*c.SecurityContext.ReadOnlyRootFilesystem {
			t.Errorf("%s has privileges, want none: %+v %+v", component, pod, c.SecurityContext)
		}
		if c.Resources.Limits.Memory().IsZero() || c.ReadinessProbe == nil || c.LivenessProbe == nil {
			t.Errorf("%s: got %+v, want a limit of memory and both probes", component, c)
		}
	}
	got = external(t,
		map[string]any{"router": map[string]any{"enabled": false}, "tokens": map[string]any{"enabled": false}})
	for _, component := range []string{"processor", "workers"} {
		if _, c := got.container(t, component); strings.Contains(strings.Join(c.Args, " "), "_URL") || len(c.Env) != 2 {
			t.Errorf("%s: got the arguments %q and environment %v, want no URL, and 2 variables", component, c.Args,
				c.Env)
		}
	}
}

// Token IDs contain a tenant's prompt, so only the processor and the workers may reach the store.
func TestExternalChart_OnlyProcessorAndWorkersReachTokenStore(t *testing.T) {
	for name, c := range map[string]struct {
		values  map[string]any
		workers map[string]string
	}{
		"defaults": {
			nil,
			map[string]string{"app.kubernetes.io/name": "penstock-external", "app.kubernetes.io/instance": "external",
				"app.kubernetes.io/component": "workers"},
		},
		"workers outside": {
			map[string]any{"workers": map[string]any{"enabled": false, "selector": map[string]any{"app": "vllm"}}},
			map[string]string{"app": "vllm"},
		},
	} {
		var policy networkingv1.NetworkPolicy
		external(t, c.values).into(t, "NetworkPolicy external-tokens", &policy)
		if len(policy.Spec.Ingress) != 1 || len(policy.Spec.Ingress[0].From) != 2 {
			t.Fatalf("%s: got %+v, want one rule with two peers", name, policy.Spec.Ingress)
		}
		for i, want := range []map[string]string{
			{"app.kubernetes.io/name": "penstock-external", "app.kubernetes.io/instance": "external",
				"app.kubernetes.io/component": "processor"}, c.workers,
		} {
			from := policy.Spec.Ingress[0].From[i]
			if from.NamespaceSelector != nil || from.IPBlock != nil || len(from.PodSelector.MatchLabels) != len(want) {
				t.Errorf("%s: got %+v, want the pods %v alone", name, from, want)
			}
			for key, value := range want {
				if from.PodSelector.MatchLabels[key] != value {
					t.Errorf("%s: got %+v, want the pods %v", name, from, want)
				}
			}
		}
	}
}

func TestExternalChart_ImagesOfOtherReleasesDoNotRender(t *testing.T) {
	for set, want := range map[string]string{
		"image=registry.example.com/penstock-external:0.2.0": "is of release 0.2 and this chart of 0.1: " +
			"use an image of 0.1, or the chart of 0.2",
		"router.image=registry.example.com/penstock-external:v0.2.1": "the image of router, " +
			"registry.example.com/penstock-external:v0.2.1, is of release 0.2",
		"workers.image=registry.example.com:5000/team/penstock:1.1.0": "the image of workers, " +
			"registry.example.com:5000/team/penstock:1.1.0, is of release 1.1",
		"image=registry.example.com/penstock-external:0.1.7":           "",
		"workers.image=registry.example.com:5000/team/penstock:v0.1.9": "",
		"tokens.image=registry.example.com/team/store:9.2":             "",
		"workers.enabled=false": "write the labels of your workers' pods into " +
			"workers.selector",
	} {
		_, err := runHelm(t, "template", "external", externalDir, "--set", set)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want the error %q", set, err, want)
		}
	}
}

func TestExternalChart_EachImageCanBeReplaced(t *testing.T) {
	own := map[string]any{
		"image": "example.com/team/program:9", "command": []any{"/program"}, "args": []any{"--flag"}, "probe": "/ready",
		"securityContext":    map[string]any{"allowPrivilegeEscalation": false},
		"podSecurityContext": map[string]any{"runAsUser": 1000},
	}
	urls := map[string]string{"processor": "ROUTER_URL TOKENS_URL", "router": "WORKERS", "tokens": "",
		"workers": "TOKENS_URL"}
	for component := range urls {
		got := external(t, map[string]any{component: own})
		for each, env := range urls {
			pod, c := got.container(t, each)
			if replaced := c.Image == own["image"]; replaced != (each == component) {
				t.Errorf("%s is replaced, and %s has %s, want this one replaced alone", component, each, c.Image)
			}
			if each != component {
				continue
			}
			if !slices.Equal(c.Args, []string{"--flag"}) || !slices.Equal(c.Command, []string{"/program"}) ||
				c.ReadinessProbe.HTTPGet.Path != "/ready" || *pod.SecurityContext.RunAsUser != 1000 ||
				c.SecurityContext.ReadOnlyRootFilesystem != nil {
				t.Errorf("%s: got %+v, want the flag, program, probe and user of the values, and their filesystem",
					component, c)
			}
			for _, name := range strings.Fields(env) {
				if !slices.ContainsFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == name && e.Value != "" }) {
					t.Errorf("%s: got %v, want %s", component, c.Env, name)
				}
			}
		}
	}
}

func TestExternalChart_ImagesAreThoseOfTheRelease(t *testing.T) {
	image := func(dir string) string {
		raw, err := os.ReadFile(filepath.Join(dir, "values.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		var values struct{ Image string }
		if err := yaml.Unmarshal(raw, &values); err != nil {
			t.Fatal(err)
		}
		return values.Image
	}
	got := external(t, nil)
	if _, c := got.container(t, "workers"); c.Image != image(chartDir) {
		t.Errorf("workers run %s, want %s as in penstock's chart", c.Image, image(chartDir))
	}
	if _, c := got.container(t, "router"); c.Image != image(externalDir) {
		t.Errorf("the router runs %s, want %s", c.Image, image(externalDir))
	}
}
