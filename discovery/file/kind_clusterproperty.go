package file

import (
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/about"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
)

// clusterPropertyKind reads v1beta1 like v1alpha1: the fields that are read have the same shape.
func clusterPropertyKind() *kind {
	return &kind{
		table:    store.ClusterProperties,
		versions: []version{{about.Group + "/" + about.Version, nil}, {about.Group + "/v1beta1", nil}},
		crd:      "clusterproperties",
		check:    checkClusterProperty,
	}
}

func checkClusterProperty(o store.Object) []mistake {
	var c checks
	p := o.(*about.ClusterProperty)
	if problem := v1alpha1.CheckClusterName(p.Spec.Value); p.Name == about.ClusterName && problem != "" {
		c.wrong("spec.value", problem, "write the name of this cluster in its cluster set, such as eu-west-1")
	}
	return c.found
}
