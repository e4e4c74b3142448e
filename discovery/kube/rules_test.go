package kube

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

// The ClusterRole in the manifests applies in every namespace, so it must grant exactly the verbs
// that Penstock uses.
func TestRBAC_ClusterRoleGrantsExactlyWhatIsUsed(t *testing.T) {
	want := map[string]string{"apiextensions.k8s.io/customresourcedefinitions": "list watch"}
	for _, k := range kinds() {
		name := k.table.Group() + "/" + k.resource
		want[name] = "list watch"
		if k.status != nil {
			want[name+"/status"] = "patch"
		}
	}
	// The verb patch is for the finalizer (status/kubestatus/class.go).
	want["gateway.networking.k8s.io/gatewayclasses"] = "list patch watch"
	got := clusterRules(t)
	for name, verbs := range got {
		// xds/fleet/apply has its own test for the rules about the objects of fleets.
		if strings.Contains(verbs, "create") {
			delete(got, name)
			delete(want, name)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +granted):\n%s", diff)
	}
}

// clusterRules returns the verbs that the manifests grant in all namespaces, by group and resource.
func clusterRules(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile("../../manifests/install/penstock.yaml")
	if err != nil {
		t.Fatal(err)
	}
	verbs := map[string][]string{}
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		var role rbacv1.ClusterRole
		if err := yaml.Unmarshal([]byte(document), &role); err != nil || role.Kind != "ClusterRole" {
			continue
		}
		for _, rule := range role.Rules {
			for _, group := range rule.APIGroups {
				for _, resource := range rule.Resources {
					name := group + "/" + resource
					verbs[name] = append(verbs[name], rule.Verbs...)
				}
			}
		}
	}
	out := map[string]string{}
	for name, list := range verbs {
		slices.Sort(list)
		out[name] = strings.Join(slices.Compact(list), " ")
	}
	return out
}
