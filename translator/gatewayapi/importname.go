package gatewayapi

import (
	"cmp"
	"slices"
	"strings"

	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/inferenceapi"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/multicluster/selection"
)

// Imported returns the import with the given key. Its clusters are the clusters in the
// InferencePoolImport and the exports of other clusters (store.Offer), except clusters that its
// PoolPolicy excludes.
func Imported(r store.Reader, key string) (*inferenceapi.InferencePoolImport, bool) {
	obj, _, ok := ImportedWithin(r, key)
	return obj, ok
}

// ImportedWithin is Imported, and also returns the clusters that the PoolPolicy's
// spec.selection.within excludes.
func ImportedWithin(r store.Reader, key string) (obj *inferenceapi.InferencePoolImport, outside []string, ok bool) {
	obj, ok = imported(r, key)
	if !ok {
		return nil, nil, false
	}
	policies := ImportPolicies(r, obj.Namespace, obj.Name)
	if len(policies) == 0 || policies[0].Spec.Selection == nil || policies[0].Spec.Selection.Within == nil {
		return obj, nil, true
	}
	limits := policies[0].Spec.Selection.Within
	within := selection.Within{Clusters: limits.Clusters, Regions: limits.Regions}
	bounded := *obj
	bounded.Status.Clusters = nil
	for _, c := range obj.Status.Clusters {
		at := selection.Place{Name: c.Name, Region: c.Region}
		if len(within.Regions) > 0 && at.Region == "" {
			if own := OwnPlace(r); own.Name == c.Name {
				at = own
			}
		}
		if within.Allows(at) {
			bounded.Status.Clusters = append(bounded.Status.Clusters, c)
		} else {
			outside = append(outside, c.Name)
		}
	}
	return &bounded, outside, true
}

// OwnPlace returns this cluster's name, region and zone; zero outside a cluster set.
func OwnPlace(r store.Reader) selection.Place {
	m, ok := store.Memberships.Get(r, store.OwnMembership)
	if !ok {
		return selection.Place{}
	}
	return selection.Place{Name: m.Cluster, Region: m.Region, Zone: m.Zone}
}

// PoolPolicies lists the policies of a pool; the first is in force.
func PoolPolicies(r store.Reader, kind, namespace, name string) []*v1alpha1.PoolPolicy {
	return slices.SortedStableFunc(
		slices.Values(store.PoolPolicies.By(r, store.ByTarget, store.TargetKey(kind, namespace, name))),
		func(a, b *v1alpha1.PoolPolicy) int {
			return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
		})
}

// ImportPolicies is PoolPolicies for a whole import, or nil if the import's name means something
// else.
func ImportPolicies(r store.Reader, namespace, name string) []*v1alpha1.PoolPolicy {
	list := PoolPolicies(r, "InferencePoolImport", namespace, name)
	if len(list) > 0 && !HasItsName(r, namespace, name) {
		return nil
	}
	return list
}

func imported(r store.Reader, key string) (*inferenceapi.InferencePoolImport, bool) {
	obj, ok := store.InferencePoolImports.Get(r, key)
	offers := store.Offers.By(r, store.ByImport, key)
	if len(offers) == 0 {
		return obj, ok
	}
	out := &inferenceapi.InferencePoolImport{}
	if ok {
		*out = *obj
	} else {
		out.Namespace, out.Name = store.ParseID(key)
	}
	clusters := make([]inferenceapi.ImportedCluster, len(out.Status.Clusters), len(out.Status.Clusters)+len(offers))
	written := make(map[string]int, len(clusters))
	for i, c := range out.Status.Clusters {
		if _, twice := written[c.Name]; !twice {
			written[c.Name] = i
		}
		clusters[i] = c
	}
	for _, o := range offers {
		if i, ok := written[o.Cluster.Name]; ok {
			clusters[i] = o.Cluster
		} else {
			clusters = append(clusters, o.Cluster)
		}
	}
	out.Status.Clusters = clusters
	return out, true
}
