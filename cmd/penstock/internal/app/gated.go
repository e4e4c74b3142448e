package app

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/penstock-project/penstock/cmd/penstock/internal/delivery"
	"github.com/penstock-project/penstock/discovery/store"
)

// gated has versionOf each AccessPolicy in force, by Gateway, then by policy. Only the pipeline
// uses it.
type gated map[string]map[string]int64

// follow applies a committed change. It returns the Gateways whose policies in force, or their
// versions, changed.
func (g gated) follow(ch *delivery.Change) (gateways []string) {
	generation := func(policy string) (n int64) {
		if p, ok := store.AccessPolicies.Get(ch.View, policy); ok {
			n = versionOf(p)
		}
		return n
	}
	set := func(gateway, policy string, n int64) {
		if old, has := g[gateway][policy]; has && old == n {
			return
		}
		if g[gateway] == nil {
			g[gateway] = map[string]int64{}
		}
		g[gateway][policy] = n
		gateways = append(gateways, gateway)
	}
	for _, use := range ch.Output.Gates {
		for gateway, policies := range g {
			if _, has := policies[use.Policy]; has && !slices.Contains(use.Gateways, gateway) {
				delete(policies, use.Policy)
				gateways = append(gateways, gateway)
			}
		}
		for _, gateway := range use.Gateways {
			set(gateway, use.Policy, generation(use.Policy))
		}
	}
	for _, o := range ch.Objects {
		if o.Table != store.AccessPolicies.Kind() {
			continue
		}
		for gateway, policies := range g {
			if _, has := policies[o.ID]; has {
				set(gateway, o.ID, generation(o.ID))
			}
		}
	}
	return gateways
}

func (g gated) at(gateway string) string {
	var b strings.Builder
	for _, policy := range slices.Sorted(maps.Keys(g[gateway])) {
		fmt.Fprintf(&b, "%s %d\n", policy, g[gateway][policy])
	}
	return b.String()
}
