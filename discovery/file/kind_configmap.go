package file

import "github.com/penstock-project/penstock/discovery/store"

func configMapKind() *kind {
	return &kind{table: store.ConfigMaps, versions: []version{{"v1", nil}}}
}
