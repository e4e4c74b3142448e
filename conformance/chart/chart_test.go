package chart

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/releaseutil"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

const (
	chartDir  = "../../manifests/charts/penstock"
	installed = "../../manifests/install/penstock.yaml"
	header    = "# Penstock without Helm: what the chart in manifests/charts renders with its default values, in the order in which Helm installs\n# it. `make golden` writes it. Gateway API and its inference extension are installed before: see the README.\n"
)

// byHelm is what is not so without Helm.
var byHelm = regexp.MustCompile(`\n *app\.kubernetes\.io/managed-by: Helm`)

func TestGoldenManifestsAreWhatTheChartRenders(t *testing.T) {
	got := []byte(header + "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: penstock-system\n")
	_, objects, err := releaseutil.SortManifests(render(t, nil), nil, releaseutil.InstallOrder)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range objects {
		got = fmt.Appendf(got, "---\n%s\n", strings.TrimSpace(byHelm.ReplaceAllString(o.Content, "")))
	}
	if os.Getenv("PENSTOCK_GOLDEN") == "rewrite" {
		if err := os.WriteFile(installed, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(installed)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("(-installed +chart)\n%s", diff)
	}
}

func TestWhateverOneSetsTheObjectsAreThoseThatKubernetesKnows(t *testing.T) {
	for name, values := range map[string]map[string]any{
		"defaults": nil,
		"all": {
			"envoyImage": "envoy:1", "imagePullSecrets": []any{map[string]any{"name": "pull"}}, "replicas": 3,
			"nodeSelector": map[string]any{"a": "b"}, "tolerations": []any{map[string]any{"operator": "Exists"}},
			"affinity":          map[string]any{"nodeAffinity": map[string]any{}},
			"priorityClassName": "high", "podAnnotations": map[string]any{"a": "b"}, "logLevel": "debug", "gatewayClass": "edge",
			"fleet": map[string]any{"replicas": 1}, "externalIPs": []any{"192.0.2.0/24", "2001:db8::/64"}, "clientCA": "clients", "xdsAddress": "192.0.2.1:18000", "args": []any{"--drain-time=1m"},
		},
		"no class": {"gatewayClass": ""},
	} {
		t.Run(name, func(t *testing.T) {
			kinds := map[string]int{}
			for file, text := range render(t, values) {
				for _, doc := range strings.Split(text, "\n---\n") {
					if kind := check(t, file, doc); kind != "" {
						kinds[kind]++
					}
				}
			}
			if kinds["Deployment"] != 1 || kinds["Service"] != 1 || kinds["ClusterRole"] != 1 || kinds["Role"] != 1 || (name == "all") != (kinds["EnvoyFleet"] == 1) {
				t.Errorf("kinds: %v", kinds)
			}
		})
	}
}

// Whoever reads what Penstock may do should not have to ask what a kind is that nobody has heard of.
func TestRulesNameNoKindThatDoesNotExist(t *testing.T) {
	const former = "inference.networking.x-k8s.io_inferencepools" // pools of the former group, whose CRD the extension's first releases have
	for file, text := range render(t, nil) {
		for _, doc := range strings.Split(text, "\n---\n") {
			var role rbacv1.ClusterRole
			if err := yaml.Unmarshal([]byte(doc), &role); err != nil || role.Kind != "ClusterRole" {
				continue
			}
			for _, rule := range role.Rules {
				for _, group := range rule.APIGroups {
					if !strings.Contains(group, "networking") && group != "penstock.dev" {
						continue // Kubernetes' own
					}
					for _, resource := range rule.Resources {
						name := group + "_" + strings.TrimSuffix(resource, "/status")
						if _, err := os.Stat("../../manifests/crds/" + name + ".yaml"); err != nil && name != former {
							t.Errorf("%s: %s of %s: %v", file, resource, group, err)
						}
					}
				}
			}
		}
	}
}

// The limit is written once, in resources, whoever installs: the pod tells its process.
func TestAPodWithAMemoryLimitIsNotKilledForGarbage(t *testing.T) {
	var d appsv1.Deployment
	for file, text := range render(t, nil) {
		if strings.HasSuffix(file, "deployment.yaml") {
			if err := yaml.UnmarshalStrict([]byte(strings.Split(text, "\n---\n")[0]), &d); err != nil {
				t.Fatal(err)
			}
		}
	}
	container := d.Spec.Template.Spec.Containers[0]
	limit := slices.IndexFunc(container.Env, func(e corev1.EnvVar) bool { return e.Name == "MEMORY_LIMIT" })
	if limit < 0 || container.Env[limit].ValueFrom.ResourceFieldRef.Resource != "limits.memory" {
		t.Errorf("the process is not told the limit: %+v", container.Env)
	}
	if !slices.Contains(container.Args, "--memory-limit=$(MEMORY_LIMIT)") {
		t.Errorf("the process does not keep to it: %v", container.Args)
	}
}

// check decodes an object strictly, where its kind is Kubernetes' own, and says what kind it is.
func check(t *testing.T, file, doc string) string {
	t.Helper()
	if strings.TrimSpace(strings.Join(slices.DeleteFunc(strings.Split(doc, "\n"), func(l string) bool { return strings.HasPrefix(l, "#") }), "\n")) == "" {
		return ""
	}
	var typed struct {
		Kind string `json:"kind"`
	}
	if err := yaml.Unmarshal([]byte(doc), &typed); err != nil {
		t.Fatalf("%s: %v\n%s", file, err, doc)
	}
	into := map[string]runtime.Object{
		"Deployment": &appsv1.Deployment{}, "Service": &corev1.Service{}, "ServiceAccount": &corev1.ServiceAccount{},
		"PodDisruptionBudget": &policyv1.PodDisruptionBudget{}, "ClusterRole": &rbacv1.ClusterRole{}, "Role": &rbacv1.Role{},
		"ClusterRoleBinding": &rbacv1.ClusterRoleBinding{}, "RoleBinding": &rbacv1.RoleBinding{},
	}[typed.Kind]
	if into == nil {
		return typed.Kind // a CRD's
	}
	if err := yaml.UnmarshalStrict([]byte(doc), into); err != nil {
		t.Errorf("%s: %v\n%s", file, err, doc)
	}
	return typed.Kind
}

// render is the templates' output by file, those without any left out.
func render(t *testing.T, values map[string]any) map[string]string {
	t.Helper()
	c, err := loader.Load(chartDir)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	all, err := chartutil.ToRenderValues(c, values, chartutil.ReleaseOptions{Name: "penstock", Namespace: "penstock-system", IsInstall: true}, nil)
	if err != nil {
		t.Fatal(err)
	}
	out, err := engine.Render(c, all)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range out {
		if strings.HasSuffix(name, ".tpl") || len(bytes.TrimSpace([]byte(text))) == 0 {
			delete(out, name)
		}
	}
	return out
}
