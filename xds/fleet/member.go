package fleet

import (
	"fmt"
	"slices"

	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/xds/identity"
)

// Member implements identity.Members. A pod of a managed fleet serves that fleet's Gateway. An
// EnvoyFleet in mode external must name any other proxy.
func (f *Fleets) Member(p identity.Proof, wish string) (gateway string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if m := f.gateways[key{p.Namespace, p.Account}]; m != nil && m.last != nil &&
		m.last.Mode != v1alpha1.FleetExternal {
		return m.Name, nil
	}
	var may []string
	for k, m := range f.gateways {
		if m.last == nil || m.last.Mode != v1alpha1.FleetExternal || m.last.External == nil {
			continue
		}
		e := m.last.External
		if k.namespace == p.Namespace && slices.Contains(e.ServiceAccounts, p.Account) ||
			slices.ContainsFunc(p.Names, func(name string) bool { return slices.Contains(e.Subjects, name) }) {
			may = append(may, m.Name)
		}
	}
	switch {
	case slices.Contains(may, wish):
		return wish, nil
	case len(may) == 1:
		return may[0], nil
	case len(may) > 1:
		slices.Sort(may)
		return "", fmt.Errorf("node.cluster is %q: it must name one of %v", wish, may)
	}
	return "", fmt.Errorf("%s is not a proxy of any Gateway", p)
}

// Recheck implements identity.Members. Proxies of a deleted Gateway keep their streams.
func (f *Fleets) Recheck(p identity.Proof, gateway string) error {
	if now, err := f.Member(p, gateway); err == nil && now == gateway {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, m := range f.gateways {
		if m.Name == gateway {
			return fmt.Errorf("%s is no longer a proxy of Gateway %s", p, gateway)
		}
	}
	return nil
}
