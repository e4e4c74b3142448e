package file

import (
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/endpointpicker"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
)

func poolPolicyKind() *kind {
	return &kind{
		table:    store.PoolPolicies,
		versions: []version{{"penstock.dev/v1alpha1", nil}},
		crd:      "poolpolicies",
		check: func(o store.Object) []mistake {
			var c checks
			spec := &o.(*v1alpha1.PoolPolicy).Spec
			for i, cidr := range spec.Remote.PodCIDRs {
				c.cidr(at("spec.remote.podCIDRs", i), cidr)
			}
			for i, cidr := range spec.Remote.Addresses {
				c.cidr(at("spec.remote.addresses", i), cidr)
			}
			if spec.Picker.Plugins != nil {
				_, problems := endpointpicker.Inline(spec.Picker.Plugins)
				c.found = append(c.found, pluginMistakes("spec.picker.plugins.", problems)...)
			}
			return c.found
		},
	}
}
