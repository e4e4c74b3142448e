package file

import (
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
)

// envoyFleetKind: Penstock creates pods of Envoy only on Kubernetes. Files may have the kind all
// the same, so that one folder serves both and a Gateway's parametersRef resolves.
func envoyFleetKind() *kind {
	return &kind{
		table:    store.EnvoyFleets,
		versions: []version{{v1alpha1.Group + "/" + v1alpha1.Version, nil}},
		crd:      "envoyfleets",
	}
}
