package set

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/about"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
)

func TestClusterProperty_NamesTheCluster(t *testing.T) {
	for _, c := range []struct {
		what, cluster, property string
		want                    string
		severity                report.Severity
		finding                 string // expected finding, "problem; fix"
	}{
		{"spec.cluster", "east", "", "east", "", ""},
		{"a property", "", "west", "west", "", ""},
		{"the same name in both", "east", "east", "east", "", ""},
		{"two names", "east", "west", "east", report.Warning,
			`it is east, and counts: ClusterProperty cluster.clusterset.k8s.io has another name in spec.value, "west"; write the same name into both`},
		{"two names, of which one is invalid", "east", "West.1", "east", report.Warning,
			`another name in spec.value, "West.1"`},
		{"an invalid property", "", "west.example", "", report.Error,
			`spec.value of ClusterProperty cluster.clusterset.k8s.io is invalid: "west.example" is no DNS label: at most 63 lower-case letters, digits and -; correct the value there, or write the name`},
		{"neither", "", "", "", report.Error,
			`there is no ClusterProperty cluster.clusterset.k8s.io (about.k8s.io); write the name of this cluster here, or into spec.value of a ClusterProperty cluster.clusterset.k8s.io`},
	} {
		s := store.New()
		set := &v1alpha1.ClusterSet{ObjectMeta: metav1.ObjectMeta{Name: "set"},
			Spec: v1alpha1.ClusterSetSpec{Cluster: c.cluster}}
		ops := []store.Op{store.ClusterSets.Put(set),
			store.ClusterProperties.Put(&about.ClusterProperty{
				ObjectMeta: metav1.ObjectMeta{Name: "other"}, Spec: about.ClusterPropertySpec{Value: "north"},
			})}
		if c.property != "" {
			ops = append(ops,
				store.ClusterProperties.Put(&about.ClusterProperty{
					ObjectMeta: metav1.ObjectMeta{Name: about.ClusterName},
					Spec:       about.ClusterPropertySpec{Value: c.property},
				}))
		}
		s.Apply(ops...)
		name, findings := nameOf(s.View(), set)
		if own := ownName(s.View()); name != c.want || own != c.want || (len(findings) == 0) != (c.finding == "") {
			t.Errorf("%s: got name %q and %q, findings %v, want %q, and findings %q", c.what, name, own, findings,
				c.want, c.finding)
			continue
		}
		for _, f := range findings {
			if f.Severity != c.severity || f.Field != "spec.cluster" || f.Owner.Name != "set" ||
				!strings.Contains(f.Problem+"; "+f.Fix, c.finding) {
				t.Errorf("%s: got %+v, want %v at spec.cluster: %s", c.what, f, c.severity, c.finding)
			}
		}
	}
}
