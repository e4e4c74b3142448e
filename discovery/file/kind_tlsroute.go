package file

import "github.com/penstock-project/penstock/discovery/store"

// The older versions have the same shape as v1, which asks for hostnames and takes one rule only.
func tlsRouteKind() *kind {
	return &kind{
		table: store.TLSRoutes,
		versions: []version{
			{"gateway.networking.k8s.io/v1", nil}, {"gateway.networking.k8s.io/v1alpha3", nil},
			{"gateway.networking.k8s.io/v1alpha2", nil},
		},
		crd: "tlsroutes",
	}
}
