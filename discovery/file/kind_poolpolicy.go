package file

import (
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
)

func poolPolicyKind() *kind {
	return &kind{
		table:    store.PoolPolicies,
		versions: []version{{"penstock.dev/v1alpha1", nil}},
		crd:      "poolpolicies",
		check: func(o store.Object) []mistake {
			var c checks
			for i, cidr := range o.(*v1alpha1.PoolPolicy).Spec.Remote.PodCIDRs {
				c.cidr(at("spec.remote.podCIDRs", i), cidr)
			}
			return c.found
		},
	}
}
