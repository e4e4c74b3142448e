package gatewayapi

import (
	"slices"
	"strings"

	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/inferenceapi"
)

// Imported reads the import with a key, as its object and the Offers of the cluster set's members have it; false if there is none of
// either. Without the object, the import has the Offers alone.
func Imported(r store.Reader, key string) (*inferenceapi.InferencePoolImport, bool) {
	obj, ok := store.InferencePoolImports.Get(r, key)
	offers := store.Offers.By(r, store.ByImport, key)
	if len(offers) == 0 {
		return obj, ok
	}
	out := &inferenceapi.InferencePoolImport{}
	if ok {
		*out = *obj
	} else {
		out.Namespace, out.Name, _ = strings.Cut(key, "/")
	}
	clusters := slices.Clone(out.Status.Clusters)
	for _, o := range offers {
		if i := slices.IndexFunc(clusters, func(c inferenceapi.ImportedCluster) bool { return c.Name == o.Cluster.Name }); i >= 0 {
			clusters[i] = o.Cluster
		} else {
			clusters = append(clusters, o.Cluster)
		}
	}
	out.Status.Clusters = clusters
	return out, true
}

// ImportNamed finds the InferencePoolImport that a name means, as its key: the one of exactly that name, else the one of
// NAME-CLUSTER, pinned to one of its exporting clusters (multi-cluster proposal, "Importing Cluster Manifests"). Of several
// readings the one with the longest NAME counts. cluster is "" for a whole import.
func ImportNamed(r store.Reader, namespace, name string) (key, cluster string, ok bool) {
	key = namespace + "/" + name
	if _, ok := Imported(r, key); ok {
		return key, "", true
	}
	for i := len(name) - 2; i > 0; i-- {
		if name[i] != '-' {
			continue
		}
		key, cluster = namespace+"/"+name[:i], name[i+1:]
		imp, ok := Imported(r, key)
		if ok && slices.ContainsFunc(imp.Status.Clusters, func(c inferenceapi.ImportedCluster) bool { return c.Name == cluster }) {
			return key, cluster, true
		}
	}
	return "", "", false
}

// ImportAlias is the name by which one exporting cluster of an import is referred to: NAME-CLUSTER; false if that name means
// something else.
func ImportAlias(r store.Reader, namespace, name, cluster string) (string, bool) {
	alias := name + "-" + cluster
	key, pinned, ok := ImportNamed(r, namespace, alias)
	return alias, ok && pinned == cluster && key == namespace+"/"+name
}
