package file

import "github.com/penstock-project/penstock/discovery/store"

// v1alpha2 has the same shape as v1, which takes one rule only.
func udpRouteKind() *kind {
	return &kind{
		table:    store.UDPRoutes,
		versions: []version{{"gateway.networking.k8s.io/v1", nil}, {"gateway.networking.k8s.io/v1alpha2", nil}},
		crd:      "udproutes",
	}
}
