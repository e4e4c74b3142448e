//go:build lab && linux

package chart

import (
	"cmp"
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"
	"sigs.k8s.io/yaml"

	"github.com/penstock-project/penstock/conformance/lab"
	"github.com/penstock-project/penstock/conformance/lab/labtest"
)

// The API server accepts each object of each chart, with default and with other values. This tests
// schemas, validation, admission, and the CEL of Penstock's CRDs and admission policy.
func TestCharts_APIServerAcceptsEveryObject(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	l, _ := startLab(ctx, t, "dryrun", lab.Config{})
	d := newDryRun(t, l)
	for _, c := range charts() {
		least := map[string]any{}
		if c.name() == "picker" {
			least["pool"] = servers
		}
		for name, values := range map[string]map[string]any{"defaults": least, "most": c.most} {
			t.Run(c.name()+" "+name, func(t *testing.T) {
				kinds := map[string]int{}
				for _, doc := range renderChart(t, c.dir, "r", c.namespace, values) {
					kind, err := d.apply(t, c.namespace, doc.text)
					if err != nil {
						t.Errorf("%s: %v", doc.file, err)
					}
					kinds[kind]++
				}
				t.Logf("accepted: %v", kinds)
			})
		}
	}
	const wrong = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\nspec: {replica: 1, selector: " +
		"{matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: a, image: a}]}}}\n"
	if _, err := d.apply(t, "default", wrong); err == nil {
		t.Error("the API server accepts an unknown field")
	}
}

type dryRun struct {
	client dynamic.Interface
	mapper meta.RESTMapper
}

func newDryRun(t *testing.T, l *lab.Lab) *dryRun {
	t.Helper()
	p := labtest.NewPlace(t, l.Kubeconfig(), "")
	for _, name := range []string{system, "a"} {
		if _, err := p.CoreV1().Namespaces().Create(t.Context(),
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	client, err := dynamic.NewForConfig(p.REST)
	if err != nil {
		t.Fatal(err)
	}
	found, err := discovery.NewDiscoveryClientForConfig(p.REST)
	if err != nil {
		t.Fatal(err)
	}
	groups, err := restmapper.GetAPIGroupResources(found)
	if err != nil {
		t.Fatal(err)
	}
	return &dryRun{client, restmapper.NewDiscoveryRESTMapper(groups)}
}

// apply applies an object as `kubectl apply --server-side --dry-run=server --validate=strict` does.
// The lab lacks the kinds of the Prometheus operator.
func (d *dryRun) apply(t *testing.T, namespace, text string) (name string, err error) {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
		return "", err
	}
	kind := u.GroupVersionKind()
	mapping, err := d.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if meta.IsNoMatchError(err) && kind.Group == "monitoring.coreos.com" {
		return kind.Kind + " (unknown)", nil
	}
	if err != nil {
		return kind.Kind, err
	}
	to := dynamic.ResourceInterface(d.client.Resource(mapping.Resource))
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		to = d.client.Resource(mapping.Resource).Namespace(cmp.Or(u.GetNamespace(), namespace))
	}
	body, err := u.MarshalJSON()
	if err != nil {
		return kind.Kind, err
	}
	_, err = to.Patch(t.Context(), u.GetName(), types.ApplyPatchType, body, metav1.PatchOptions{
		DryRun: []string{metav1.DryRunAll}, FieldManager: "conformance", FieldValidation: metav1.FieldValidationStrict,
		Force: new(true)})
	return kind.Kind, err
}
