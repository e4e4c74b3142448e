package file

import "github.com/penstock-project/penstock/discovery/store"

func backendTLSPolicyKind() *kind {
	return &kind{
		table:    store.BackendTLSPolicies,
		versions: []version{{"gateway.networking.k8s.io/v1", nil}, {"gateway.networking.k8s.io/v1alpha3", nil}},
		crd:      "backendtlspolicies",
	}
}
