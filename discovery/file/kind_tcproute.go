package file

import "github.com/penstock-project/penstock/discovery/store"

// tcpRouteKind reads v1alpha2 like v1, which allows only one rule.
func tcpRouteKind() *kind {
	return &kind{
		table:    store.TCPRoutes,
		versions: []version{{"gateway.networking.k8s.io/v1", nil}, {"gateway.networking.k8s.io/v1alpha2", nil}},
		crd:      "tcproutes",
	}
}
