package apply

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

// Penstock may write its Lease and its authority's Secret only in its own namespace. discovery/kube
// tests the permissions to read.
func TestRBAC_InstalledRulesAreLeastPrivilege(t *testing.T) {
	want := map[string]string{at(reviews): "create"}
	for _, resource := range kinds {
		want[at(resource)] = "create delete get list patch watch"
	}
	everywhere := rules(t, "ClusterRole")
	for name, verbs := range everywhere {
		if !strings.Contains(verbs, "create") && !strings.Contains(verbs, "delete") {
			delete(everywhere, name)
		}
	}
	if diff := cmp.Diff(want, everywhere); diff != "" {
		t.Errorf("everywhere (-want +granted):\n%s", diff)
	}
	own := map[string]string{
		at(secrets): "create", at(secrets) + " penstock-ca": "get update",
		"coordination.k8s.io/leases": "create", "coordination.k8s.io/leases penstock": "get update",
	}
	if diff := cmp.Diff(own, rules(t, "Role")); diff != "" {
		t.Errorf("in its namespace (-want +granted):\n%s", diff)
	}
}

func at(r schema.GroupVersionResource) string { return r.Group + "/" + r.Resource }

func rules(t *testing.T, kind string) map[string]string {
	t.Helper()
	text, err := os.ReadFile("../../../manifests/install/penstock.yaml")
	if err != nil {
		t.Fatal(err)
	}
	verbs := map[string][]string{}
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		var role rbacv1.ClusterRole
		if err := yaml.Unmarshal([]byte(document), &role); err != nil || role.Kind != kind {
			continue
		}
		for _, rule := range role.Rules {
			for _, group := range rule.APIGroups {
				for _, resource := range rule.Resources {
					name := strings.Join(append([]string{group + "/" + resource}, rule.ResourceNames...), " ")
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
