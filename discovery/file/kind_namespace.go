package file

import "github.com/penstock-project/penstock/discovery/store"

func namespaceKind() *kind {
	return &kind{table: store.Namespaces, versions: []version{{"v1", nil}}}
}
