package addresses

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/penstock-project/penstock/discovery/store"
)

// Fix returns how an object's author can correct an address. outside is the reason why the address
// is not allowed.
func Fix(outside string) string {
	if strings.Contains(outside, neverAllowed) {
		return "write another address"
	}
	if strings.Contains(outside, neitherOf) {
		return "write an IP address or a host name"
	}
	if strings.Contains(outside, inDenied) {
		return "write an address outside of the denied ranges, or ask the operator of Penstock to take its range out " +
			"of --denied-cidrs"
	}
	return "write an address inside the allowed ranges, or ask the operator of Penstock to add its range to " +
		"--allowed-cidrs"
}

const neverAllowed = ", which is never allowed"

const inDenied = "is in the denied range "

const neitherOf = " is neither an IP address nor a host name"

// Neither returns why a text is neither an IP address nor a possible host name, or "".
func Neither(text string) string {
	if _, err := netip.ParseAddr(text); err == nil || isHostName(text) {
		return ""
	}
	return fmt.Sprintf("%.64q", text) + neitherOf
}

func isHostName(text string) bool {
	text = strings.TrimSuffix(text, ".")
	if len(text) > 253 {
		return false
	}
	for label := range strings.SplitSeq(text, ".") {
		if label == "" || len(label) > 63 || strings.ContainsFunc(label, func(c rune) bool {
			return !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '_')
		}) {
			return false
		}
	}
	return true
}

// Policy checks addresses against the store's AddressPolicy.
type Policy struct {
	Ranges
	// ExternalName is set if Services of type ExternalName have endpoints.
	ExternalName bool

	r      store.Reader
	shared bool
	own    string
}

// Of returns the Policy of the store. Without an AddressPolicy, it allows no address.
func Of(r store.Reader) Policy {
	p := Policy{r: r}
	stored, ok := store.AddressPolicies.Get(r, store.OwnAddressPolicy)
	if !ok {
		p.shared = true
		return p
	}
	p.Ranges = Ranges{Allowed: prefixes(stored.Allowed), Denied: prefixes(stored.Denied), Loopback: stored.Loopback}
	p.ExternalName, p.shared, p.own = stored.ExternalName, stored.Shared, stored.Own
	return p
}

func prefixes(list []string) (out []netip.Prefix) {
	for _, text := range list {
		if p, err := ParseRange(text); err == nil {
			out = append(out, p)
		}
	}
	return out
}

// Written returns why an address that a user wrote may not become an endpoint, as a phrase that
// follows the address, or "".
func (p Policy) Written(ip netip.Addr) string {
	if why := p.Outside(ip); why != "" {
		return why
	}
	if !p.shared {
		return ""
	}
	for _, form := range Forms(ip) {
		o, ok := store.Occupants.Get(p.r, form.String())
		if !ok {
			continue
		}
		if why := p.ownService(o); why != "" {
			return why
		}
	}
	return ""
}

// Slice checks the addresses of an EndpointSlice that Kubernetes did not generate. By default, only
// administrators write such slices. So their addresses may be outside the allowed ranges, but an
// endpoint of another namespace is not allowed (CVE-2021-25740).
type Slice struct {
	policy    Policy
	namespace string
	occupants map[string]*store.Occupant
}

// Slice returns the checks of an EndpointSlice. It reads the occupants of all addresses by one key
// of the store. One key for each address took 17 MiB for 5,000 slices of 10 endpoints.
func (p Policy) Slice(namespace string, list []netip.Addr) Slice {
	s := Slice{policy: p, namespace: namespace}
	if !p.shared || len(list) == 0 {
		return s
	}
	all := make([]netip.Addr, 0, len(list))
	for _, ip := range list {
		all = appendForms(all, ip)
	}
	for _, o := range store.Occupants.By(p.r, store.ByAddresses, store.AddressesKey(all)) {
		if s.occupants == nil {
			s.occupants = map[string]*store.Occupant{}
		}
		s.occupants[o.Name] = o
	}
	return s
}

// Outside returns why an address of the EndpointSlice may not become an endpoint, as a phrase that
// follows the address, or "".
func (s Slice) Outside(ip netip.Addr) string {
	p := s.policy
	if kind := p.Never(ip); kind != "" {
		return "is " + kind + neverAllowed
	}
	local := false
	for _, o := range s.of(ip) {
		if why := p.ownService(o); why != "" {
			return why
		}
		if len(o.Clusters) > 0 {
			return fmt.Sprintf("belongs to Service %s: name the Service in the route instead", o.Clusters[0])
		}
		within := func(service string) bool { return strings.HasPrefix(service, s.namespace+"/") }
		local = slices.ContainsFunc(o.Endpoints, within)
		if !local && len(o.Endpoints) > 0 {
			return fmt.Sprintf("belongs to an endpoint of Service %s, in another namespace", o.Endpoints[0])
		}
	}
	if denied, ok := p.DeniedBy(ip); ok && !local {
		return inDenied + denied.String()
	}
	return ""
}

func (s Slice) of(ip netip.Addr) (out []*store.Occupant) {
	if len(s.occupants) == 0 {
		return nil
	}
	for _, form := range Forms(ip) {
		if o := s.occupants[form.String()]; o != nil {
			out = append(out, o)
		}
	}
	return out
}

// Forms returns ip and the addresses to which a network may translate it, such as with NAT64.
func Forms(ip netip.Addr) []netip.Addr { return appendForms(nil, ip) }

func appendForms(to []netip.Addr, ip netip.Addr) []netip.Addr {
	ip = unwrap(ip)
	inner, _ := embedded(ip)
	return append(append(to, ip), inner...)
}

func (p Policy) ownService(o *store.Occupant) string {
	for _, service := range slices.Concat(o.Clusters, o.Endpoints) {
		if p.ours(service) {
			return fmt.Sprintf("belongs to Penstock's own Service %s"+neverAllowed, service)
		}
	}
	return ""
}

func (p Policy) ours(service string) bool {
	if service == p.own {
		return true
	}
	s, ok := store.Services.Get(p.r, service)
	return ok && s.Labels[gatewayv1.GatewayNameLabelKey] != "" && s.Labels["app.kubernetes.io/managed-by"] == "penstock"
}

// Unrestricted returns the AddressPolicy for objects from files: it denies only addresses that are
// never allowed.
func Unrestricted() *store.AddressPolicy {
	p := &store.AddressPolicy{Loopback: true, ExternalName: true}
	p.Name = store.OwnAddressPolicy
	for _, r := range Everything() {
		p.Allowed = append(p.Allowed, r.String())
	}
	return p
}
