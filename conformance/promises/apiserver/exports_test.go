//go:build lab

package apiserver

import (
	"context"
	"errors"
	"os"
	"regexp"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/penstock-project/penstock/conformance/lab/labtest"
)

// With the policy of docs/restrict-exports.md, a tenant that may write pools can neither write an
// exported pool nor end an export.
func TestExports_PolicyOfThePage(t *testing.T) {
	page, err := os.ReadFile("../../../docs/restrict-exports.md")
	if err != nil {
		t.Fatal(err)
	}
	policy := regexp.MustCompile("(?s)```yaml lab\n(apiVersion: admissionregistration.*?)```").FindSubmatch(page)
	if policy == nil {
		t.Fatal("docs/restrict-exports.md has no policy")
	}
	s := start(t)
	s.install(t, "inferencepools")
	admit, bind, _ := strings.Cut(string(policy[1]), "\n---\n")
	s.create(t, "validatingadmissionpolicies", admit)
	s.create(t, "validatingadmissionpolicybindings", bind)
	s.create(t, "clusterroles", `{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole,
  metadata: {name: tenant},
  rules: [{apiGroups: [inference.networking.k8s.io], resources: [inferencepools], verbs: ['*']}]}`)
	s.create(t, "clusterrolebindings", `{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding,
  metadata: {name: tenant},
  roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: tenant},
  subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: tenant}]}`)

	as := rest.CopyConfig(s.rest)
	as.Impersonate.UserName = "tenant"
	client, err := dynamic.NewForConfig(as)
	if err != nil {
		t.Fatal(err)
	}
	const spec = `"spec": {"selector": {"matchLabels": {"app": "a"}}, "targetPorts": [{"number": 1}],
		"endpointPickerRef": {"name": "epp", "port": {"number": 9002}}}`
	const export = `"annotations": {"inference.networking.x-k8s.io/export": "ClusterSet"}`
	apply := func(c dynamic.Interface, name, annotations string) error {
		body := `{"apiVersion": "inference.networking.k8s.io/v1", "kind": "InferencePool", "metadata": {"name": "` +
			name + `", ` + annotations + `}, ` + spec + `}`
		_, err := c.Resource(schema.GroupVersionResource{
			Group: "inference.networking.k8s.io", Version: "v1", Resource: "inferencepools",
		}).Namespace("default").Patch(context.Background(), name, types.ApplyPatchType, []byte(body),
			metav1.PatchOptions{FieldManager: "test", Force: new(true)})
		return err
	}
	labtest.Until(t, "the policy denies an export", func(context.Context) error {
		if err := apply(client, "probe", export); err == nil || !strings.Contains(err.Error(), "pool-exports") {
			return errors.New("not yet")
		}
		return nil
	})
	for _, step := range []struct {
		what        string
		client      dynamic.Interface
		name        string
		annotations string
		denied      bool
	}{
		{"a tenant writes a pool", client, "mine", `"labels": {"a": "b"}`, false},
		{"a tenant changes it", client, "mine", `"labels": {"a": "c"}`, false},
		{"a tenant exports it", client, "mine", export, true},
		{"an administrator exports a pool", s.client, "theirs", export, false},
		{"a tenant ends its export", client, "theirs", `"annotations": {}`, true},
		{"an administrator ends its export", s.client, "theirs", `"annotations": {}`, false},
	} {
		err := apply(step.client, step.name, step.annotations)
		if denied := err != nil && strings.Contains(err.Error(), "pool-exports"); denied != step.denied ||
			err != nil && !denied {
			t.Errorf("%s: got error %v, want denied %v", step.what, err, step.denied)
		}
	}
}
