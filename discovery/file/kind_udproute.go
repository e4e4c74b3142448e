package file

import "github.com/penstock-project/penstock/discovery/store"

// udpRouteKind reads v1alpha2 like v1, which allows only one rule.
func udpRouteKind() *kind {
	return &kind{
		table:    store.UDPRoutes,
		versions: []version{{"gateway.networking.k8s.io/v1", nil}, {"gateway.networking.k8s.io/v1alpha2", nil}},
		crd:      "udproutes",
	}
}
