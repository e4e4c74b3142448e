package file

import "github.com/penstock-project/penstock/discovery/store"

func gatewayClassKind() *kind {
	return &kind{
		table:    store.GatewayClasses,
		versions: []version{{"gateway.networking.k8s.io/v1", nil}, {"gateway.networking.k8s.io/v1beta1", nil}},
		crd:      "gatewayclasses",
	}
}
