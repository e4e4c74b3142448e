package file

import (
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
)

func modelServersKind() *kind {
	return &kind{
		table:    store.ModelServers,
		versions: []version{{"penstock.dev/v1alpha1", nil}},
		crd:      "modelservers",
		check: func(o store.Object) []mistake {
			var c checks
			for i, s := range o.(*v1alpha1.ModelServers).Spec.Servers {
				c.ipOrHost(at("spec.servers", i)+".address", s.Address)
			}
			return c.found
		},
	}
}
