package chart

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"
)

var hubValues = map[string]any{"hub": map[string]any{
	"enabled": true, "takeOver": true, "drainTime": "1m",
	"kubeconfigs": map[string]any{"secret": map[string]any{"secretName": "members"}},
	"profiles": map[string]any{"configMap": "providers",
		"plugins": map[string]any{"image": map[string]any{"reference": "plugins:1"}}},
}}

func TestChart_HubHasPodsAndPermissionsOfItsOwn(t *testing.T) {
	var own, hub appsv1.Deployment
	var service corev1.Service
	policies := 0
	for _, d := range render(t, hubValues) {
		kind := check(t, d)
		var into any
		switch isHub := strings.HasSuffix(d.file, "hub.yaml"); {
		case kind == "Deployment" && isHub:
			into = &hub
		case kind == "Deployment":
			into = &own
		case kind == "Service":
			into = &service
		case kind == "NetworkPolicy" && isHub:
			var p networkingv1.NetworkPolicy
			if err := yaml.UnmarshalStrict([]byte(d.text), &p); err != nil {
				t.Fatal(err)
			}
			if policies++; len(p.Spec.Ingress) != 1 || p.Spec.Ingress[0].Ports[0].Port.StrVal != "http" {
				t.Errorf("ingress: got %+v, want http alone", p.Spec.Ingress)
			}
			continue
		default:
			continue
		}
		if err := yaml.UnmarshalStrict([]byte(d.text), into); err != nil {
			t.Fatal(err)
		}
	}
	pods := labels.Set(hub.Spec.Template.Labels)
	if policies != 1 || pods.AsSelector().Empty() || labels.SelectorFromSet(service.Spec.Selector).Matches(pods) ||
		labels.SelectorFromSet(own.Spec.Selector.MatchLabels).Matches(pods) {
		t.Errorf("got %d NetworkPolicies, pods %v, and the Service %v, want 1, and the hub's pods in no other selector",
			policies, pods, service.Spec.Selector)
	}
	got, want := hub.Spec.Template.Spec, own.Spec.Template.Spec
	if diff := cmp.Diff(want.SecurityContext, got.SecurityContext) +
		cmp.Diff(want.Containers[0].SecurityContext, got.Containers[0].SecurityContext); diff != "" {
		t.Errorf("want the same contexts (-penstock +hub)\n%s", diff)
	}
	if got.ServiceAccountName != "penstock-hub" || got.Volumes[0].Secret.SecretName != "members" ||
		len(got.Containers[0].VolumeMounts) != 3 {
		t.Errorf("got account %s, volumes %+v, want penstock-hub, the Secret members and 3 mounts",
			got.ServiceAccountName, got.Volumes)
	}
	args := strings.Join(got.Containers[0].Args, " ")
	for _, want := range []string{"hub --http=", "--admin=127.0.0.1:", "--kubeconfigs=/etc/penstock/members",
		"--clusterprofile-provider-file=/etc/penstock/profiles/providers.json", "--take-over", "--drain-time=1m"} {
		if !strings.Contains(args, want) {
			t.Errorf("arguments: got %s, want %s", args, want)
		}
	}
	for name, rules := range allRules(t, onlyHub(t)) {
		for _, r := range rules {
			for _, resource := range r.Resources {
				if resource == "secrets" || resource == "*" || strings.Contains(strings.Join(r.Verbs, " "), "delete") {
					t.Errorf("namespace %q: got %+v, want no rule for secrets, for everything, or to delete", name, r)
				}
			}
		}
	}
	if out, err := runHelm(t, "template", "penstock", chartDir, "--set", "hub.enabled=true"); err == nil ||
		!strings.Contains(err.Error(), "hub.kubeconfigs") {
		t.Errorf("a hub that reaches no member: got %v\n%.300s\nwant an error about hub.kubeconfigs", err, out)
	}
}

// Values of an earlier chart are an error that names the fix. If Helm ignored these values, the
// clusters would lose their connection.
func TestChart_HubThatRelayedNamesWhatToWriteInstead(t *testing.T) {
	hub := map[string]any{
		"enabled": true, "kubeconfigs": map[string]any{"secret": map[string]any{"secretName": "members"}},
	}
	hub["members"] = map[string]any{"address": "hub.example.com:18443"}
	out, err := runHelm(t, "template", "penstock", chartDir, "--values", written(t, map[string]any{"hub": hub}))
	if err == nil || !strings.Contains(err.Error(), "hub.members is no longer supported") ||
		!strings.Contains(err.Error(), "penstock clusters join") {
		t.Errorf("got %v\n%.300s\nwant that hub.members is no longer supported, and penstock clusters join", err, out)
	}
}

func onlyHub(t *testing.T) (out []document) {
	t.Helper()
	for _, d := range render(t, hubValues) {
		if strings.HasSuffix(d.file, "hub.yaml") {
			out = append(out, d)
		}
	}
	return out
}
