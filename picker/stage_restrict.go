package picker

import (
	"net/netip"
	"strings"

	"github.com/penstock-project/penstock/picker/endpoint"
)

// restrict decides to what a request may be sent: by the gateway's subset hint, by the subset that
// its route asks for, and by the spill targets that Envoys have. Of model servers it sets the
// endpoints, the filter and what strategies read of the request. It ends the pick of a pool behind
// gateways, for which nothing is picked.
func restrict(k *pick) { k.target.restrict(k) }

func (servers) restrict(k *pick) {
	pool, r := k.pool, k.request
	pool.snapshot.MarkUsed()
	k.endpoints, k.sampled = pool.snapshot.Endpoints, pool.history.due(k.started, len(pool.snapshot.Endpoints))
	entries, restricted := k.picker.config.Protocol.subset(r.Headers)
	if k.restricted = restricted; restricted {
		k.allowed = subset(entries) // it bounds the pick, and no hop is in it
	} else {
		k.spillTo = pool.spill(r.Spill)
	}
	if r.Subset != "" {
		k.allowed, k.restricted = pool.selected(r.Subset, k.allowed), true
	}
	k.holder = endpoint.Holder{Gateway: r.Gateway, Pool: pool.Name}
	k.query = pool.scheduled(r, k.started)
	k.working = workings.Get().(*working)
}

// subset returns a filter for a subset hint: "ip:port" allows this endpoint, "ip" allows any port.
func subset(entries []string) func(*endpoint.Endpoint) bool {
	addrs := map[netip.AddrPort]bool{}
	hosts := map[netip.Addr]bool{}
	for _, text := range entries {
		if addr, err := netip.ParseAddrPort(text); err == nil {
			addrs[addr] = true
		} else if host, err := netip.ParseAddr(strings.Trim(text, "[]")); err == nil {
			hosts[host] = true
		}
	}
	return func(e *endpoint.Endpoint) bool { return addrs[e.Addr] || hosts[e.Addr.Addr()] }
}
