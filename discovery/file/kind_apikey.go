package file

import "github.com/penstock-project/penstock/discovery/store"

func apiKeyKind() *kind {
	return &kind{table: store.APIKeys, versions: []version{{"penstock.dev/v1alpha1", nil}}, crd: "apikeys"}
}
