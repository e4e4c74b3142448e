package file

import "github.com/penstock-project/penstock/discovery/store"

func grpcRouteKind() *kind {
	return &kind{
		table:    store.GRPCRoutes,
		versions: []version{{"gateway.networking.k8s.io/v1", nil}, {"gateway.networking.k8s.io/v1alpha2", nil}},
		crd:      "grpcroutes",
	}
}
