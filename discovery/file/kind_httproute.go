package file

import "github.com/penstock-project/penstock/discovery/store"

func httpRouteKind() *kind {
	return &kind{
		table:    store.HTTPRoutes,
		versions: []version{{"gateway.networking.k8s.io/v1", nil}, {"gateway.networking.k8s.io/v1beta1", nil}},
		crd:      "httproutes",
	}
}
