package file

import (
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
)

// envoyFleetKind reads EnvoyFleets from files although Penstock creates Envoy pods only on
// Kubernetes, so that one folder serves both and a Gateway's parametersRef resolves.
func envoyFleetKind() *kind {
	return &kind{
		table:    store.EnvoyFleets,
		versions: []version{{v1alpha1.Group + "/" + v1alpha1.Version, nil}},
		crd:      "envoyfleets",
	}
}
