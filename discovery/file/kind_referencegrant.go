package file

import "github.com/penstock-project/penstock/discovery/store"

func referenceGrantKind() *kind {
	return &kind{
		table: store.ReferenceGrants,
		versions: []version{
			{"gateway.networking.k8s.io/v1beta1", nil}, {"gateway.networking.k8s.io/v1", nil},
			{"gateway.networking.k8s.io/v1alpha2", nil},
		},
		crd: "referencegrants",
	}
}
