package inference

import (
	"net/netip"
	"slices"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/translator/addresses"
	"github.com/penstock-project/penstock/translator/model"
	"github.com/penstock-project/penstock/translator/services"
)

// Selection only records, as a dependency, the read of the pods that an InferencePool selects.
func Selection(r store.Reader, key string) {
	obj, ok := store.InferencePools.Get(r, key)
	if !ok {
		return
	}
	selector := map[string]string{}
	for k, v := range obj.Spec.Selector.MatchLabels {
		selector[string(k)] = string(v)
	}
	services.Candidates(r, obj.Namespace, selector)
}

// Members lists the model servers of a pool, sorted by address: matching Pods and ModelServers, or
// an import's endpoints. Each target port counts as a server.
func Members(r store.Reader, p *model.Pool) []model.Member {
	var out []model.Member
	switch {
	case p.Selector != nil:
		return services.Select(r, p.Ref.Namespace, p.Selector, p.Ports)
	case p.Relay != nil:
		policy := addresses.Of(r)
		name := store.LearnedName(p.Ref.Name, p.Relay.Member)
		if learned, ok := store.LearnedEndpoints.Get(r, objectid.Join(p.Ref.Namespace, name)); ok {
			for _, e := range learned.Endpoints {
				if addr, err := netip.ParseAddrPort(e); err == nil && policy.Written(addr.Addr()) == "" {
					out = append(out, model.Member{Address: addr, Pod: p.Relay.Member})
				}
			}
		}
	default:
		for _, addr := range p.Remote {
			out = append(out, model.Member{Address: addr})
		}
	}
	slices.SortFunc(out, func(a, b model.Member) int { return a.Address.Compare(b.Address) })
	return slices.CompactFunc(out, func(a, b model.Member) bool { return a.Address == b.Address })
}
