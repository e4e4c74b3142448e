package file

import "github.com/penstock-project/penstock/discovery/store"

// tlsRouteKind reads the older versions like v1, which requires hostnames and allows only one rule.
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
