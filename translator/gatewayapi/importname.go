package gatewayapi

import (
	"slices"

	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/inferenceapi"
)

// ImportNamed finds the InferencePoolImport that a name means, as its key: the one of exactly that name, else the one of
// NAME-CLUSTER, pinned to one of its exporting clusters (multi-cluster proposal, "Importing Cluster Manifests"). Of several
// readings the one with the longest NAME counts. cluster is "" for a whole import.
func ImportNamed(r store.Reader, namespace, name string) (key, cluster string, ok bool) {
	key = namespace + "/" + name
	if _, ok := store.InferencePoolImports.Get(r, key); ok {
		return key, "", true
	}
	for i := len(name) - 2; i > 0; i-- {
		if name[i] != '-' {
			continue
		}
		key, cluster = namespace+"/"+name[:i], name[i+1:]
		imp, ok := store.InferencePoolImports.Get(r, key)
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
