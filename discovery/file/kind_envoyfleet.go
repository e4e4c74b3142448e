package file

import (
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
)

// envoyFleetKind: Penstock creates Envoy pods only on Kubernetes, but one folder may serve both,
// and a Gateway's parametersRef must resolve.
func envoyFleetKind() *kind {
	return &kind{
		table:    store.EnvoyFleets,
		versions: []version{{v1alpha1.Group + "/" + v1alpha1.Version, nil}},
		crd:      "envoyfleets",
	}
}
