package gatewayapi

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/inferenceapi"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
)

// Meaning is one meaning of an InferencePoolImport's name: the import of that name, or, if the name
// is NAME-CLUSTER, the exporting cluster CLUSTER of the import NAME (multi-cluster proposal).
type Meaning struct {
	Namespace, Import string
	Cluster           string // "" for the whole import

	written bool  // a user or another controller wrote the import
	since   int64 // in Unix microseconds, as in store.Offer.Since
}

// Key returns the import's key.
func (m *Meaning) Key() string { return objectid.Join(m.Namespace, m.Import) }

// String implements fmt.Stringer.
func (m *Meaning) String() string {
	text := "InferencePoolImport " + m.Key()
	if m.Cluster != "" {
		text = "cluster " + m.Cluster + " of " + text
	}
	return text
}

// An import that a user or another controller wrote comes first. Otherwise the older meaning comes
// first, so that a new export never changes what a name means. For equal ages, a cluster of an
// import precedes an import, and a longer NAME precedes a shorter one.
func (m *Meaning) compare(o *Meaning) int {
	rank := func(first bool) int {
		if first {
			return 0
		}
		return 1
	}
	return cmp.Or(rank(m.written)-rank(o.written), cmp.Compare(m.since, o.since),
		rank(m.Cluster != "")-rank(o.Cluster != ""), len(o.Import)-len(m.Import))
}

// ImportNamed returns the key of the import that a name means, and the exporting cluster, or "" for
// the whole import. Every lookup of a user's name must use ImportNamed.
func ImportNamed(r store.Reader, namespace, name string) (key, cluster string, ok bool) {
	list := meanings(r, namespace, name)
	if len(list) == 0 {
		return "", "", false
	}
	return list[0].Key(), list[0].Cluster, true
}

func meanings(r store.Reader, namespace, name string) (out []Meaning) {
	if m, ok := wholeImport(r, namespace, name); ok {
		out = append(out, m)
	}
	for i := len(name) - 2; i > 0; i-- {
		if name[i] != '-' {
			continue
		}
		if m, ok := oneCluster(r, namespace, name[:i], name[i+1:]); ok {
			out = append(out, m)
		}
	}
	slices.SortStableFunc(out, func(a, b Meaning) int { return a.compare(&b) })
	return out
}

func wholeImport(r store.Reader, namespace, name string) (m Meaning, ok bool) {
	m = Meaning{Namespace: namespace, Import: name}
	obj, exists := store.InferencePoolImports.Get(r, m.Key())
	if exists && !made(obj) {
		m.written = true
		return m, true
	}
	offers := store.Offers.By(r, store.ByImport, m.Key())
	for i, o := range offers {
		if i == 0 || o.Since < m.since {
			m.since = o.Since
		}
	}
	if len(offers) == 0 && exists {
		m.since = created(obj)
	}
	return m, exists || len(offers) > 0
}

func oneCluster(r store.Reader, namespace, name, cluster string) (m Meaning, ok bool) {
	m = Meaning{Namespace: namespace, Import: name, Cluster: cluster}
	if o, offered := store.Offers.Get(r, objectid.Join(namespace, store.OfferName(name, cluster))); offered &&
		o.Import == name {
		m.since, ok = o.Since, true
	}
	obj, exists := store.InferencePoolImports.Get(r, m.Key())
	if !exists {
		return m, ok
	}
	has := func(c inferenceapi.ImportedCluster) bool { return c.Name == cluster }
	i := slices.IndexFunc(obj.Status.Clusters, has)
	if i < 0 {
		return m, ok
	}
	since, imported := entered(obj, &obj.Status.Clusters[i])
	if imported && (!ok || since < m.since) {
		m.since = since
	}
	return m, ok || imported
}

// The result `imported` is false if the hub that wrote the entry does not import the cluster.
func entered(obj *inferenceapi.InferencePoolImport, c *inferenceapi.ImportedCluster) (since int64, imported bool) {
	if made(obj) {
		since = created(obj)
	}
	if condition := meta.FindStatusCondition(c.Conditions, v1alpha1.ConditionImported); condition != nil {
		return max(since, condition.LastTransitionTime.UnixMicro()), condition.Status == metav1.ConditionTrue
	}
	return since, true // written by a user, another controller, or an earlier release of the hub
}

// made reports whether Penstock made an import from members' exports.
func made(obj *inferenceapi.InferencePoolImport) bool {
	return obj.Labels[v1alpha1.ImportedByLabel] != ""
}

func created(obj *inferenceapi.InferencePoolImport) int64 {
	if obj.CreationTimestamp.IsZero() {
		return 0
	}
	return obj.CreationTimestamp.UnixMicro()
}

// AliasName returns the name for one exporting cluster of an import.
func AliasName(name, cluster string) string { return name + "-" + cluster }

// IsImportAlias reports whether the result of AliasName means the exporting cluster.
func IsImportAlias(r store.Reader, namespace, name, cluster string) bool {
	key, pinned, ok := ImportNamed(r, namespace, AliasName(name, cluster))
	return ok && pinned == cluster && key == objectid.Join(namespace, name)
}

// HasItsName reports whether the name selects the whole import, not one of its exporting clusters
// (AliasName).
func HasItsName(r store.Reader, namespace, name string) bool {
	_, cluster, ok := ImportNamed(r, namespace, name)
	return !ok || cluster == ""
}

// Ambiguous returns the finding about an ambiguous name of an import.
func Ambiguous(r store.Reader, owner report.Ref, field, namespace, name string) (f report.Finding, ok bool) {
	list := meanings(r, namespace, name)
	if len(list) < 2 {
		return f, false
	}
	f = report.Finding{Severity: report.Warning, Owner: owner, Field: field}
	if list[0].written {
		f.Problem = fmt.Sprintf("%s means %s, which a user or controller wrote, and not %s", name, &list[0], &list[1])
		f.Fix = "if the cluster is meant, give that import another name"
		return f, true
	}
	f.Problem = fmt.Sprintf("%s means %s, and not %s, which is not older", name, &list[0], &list[1])
	f.Fix = fmt.Sprintf(
		"have one of the two pools exported under another name, or write an InferencePoolImport %s/%s, "+
			"which has its exact name", namespace, name)
	return f, true
}
