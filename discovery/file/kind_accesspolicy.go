package file

import "github.com/penstock-project/penstock/discovery/store"

func accessPolicyKind() *kind {
	return &kind{table: store.AccessPolicies, versions: []version{{"penstock.dev/v1alpha1", nil}},
		crd: "accesspolicies"}
}
