package addresses

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
)

// Ranges has the operator's allowed addresses. The zero value allows none.
type Ranges struct {
	// An allowed address is in Allowed and not in Denied.
	Allowed, Denied []netip.Prefix
	// Loopback allows loopback addresses that are in Allowed.
	Loopback bool
}

// ParseRange parses a CIDR. An IPv4-mapped CIDR becomes the IPv4 range.
func ParseRange(text string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(text)
	if err != nil {
		return p, errors.New("it is no range in CIDR form, such as 10.0.0.0/8")
	}
	if p.Addr().Is4In6() {
		if p.Bits() < 96 {
			return netip.Prefix{}, fmt.Errorf("the range is larger than that of IPv4 addresses")
		}
		p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	return p.Masked(), nil
}

// Everything returns the ranges that contain every address.
func Everything() []netip.Prefix {
	return []netip.Prefix{netip.PrefixFrom(netip.IPv4Unspecified(), 0), netip.PrefixFrom(netip.IPv6Unspecified(), 0)}
}

// Never returns the kind of an address that no range can allow, or "" for other addresses.
func (r *Ranges) Never(ip netip.Addr) string {
	if ip.Zone() != "" { // zones are local to a machine, and Envoy rejects endpoints with them
		return "an address with a zone"
	}
	ip = unwrap(ip)
	if kind := r.special(ip); kind != "" {
		return kind
	}
	inner, _ := embedded(ip)
	for _, v4 := range inner {
		if kind := r.special(v4); kind != "" {
			return fmt.Sprintf("%s (%s)", kind, v4)
		}
	}
	return ""
}

func (r *Ranges) special(ip netip.Addr) string {
	switch {
	case !ip.IsValid(), ip.IsUnspecified(), ip.Is4() && ip.As4()[0] == 0: // 0.0.0.0/8 is this host (RFC 1122, 3.2.1.3)
		return "an unspecified address"
	case ip.IsLoopback() && !r.Loopback:
		return "a loopback address"
	case ip.IsLinkLocalUnicast():
		return "a link-local address"
	case ip.IsMulticast(), ip == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		return "a multicast address"
	}
	return ""
}

// Outside returns why ip is not allowed, as a phrase that follows the address, or "".
func (r *Ranges) Outside(ip netip.Addr) string {
	if kind := r.Never(ip); kind != "" {
		return "is " + kind + neverAllowed
	}
	if denied, ok := r.DeniedBy(ip); ok {
		return inDenied + denied.String()
	}
	ip = unwrap(ip)
	if in(r.Allowed, ip) {
		return ""
	}
	inner, certain := embedded(ip)
	if certain && len(inner) > 0 && !slices.ContainsFunc(inner,
		func(v4 netip.Addr) bool { return !in(r.Allowed, v4) }) {
		return ""
	}
	return "is outside the allowed ranges"
}

// DeniedBy returns the denied range that contains ip.
func (r *Ranges) DeniedBy(ip netip.Addr) (netip.Prefix, bool) {
	if len(r.Denied) == 0 {
		return netip.Prefix{}, false
	}
	for _, form := range Forms(ip) {
		for _, p := range r.Denied {
			if p.Contains(form) {
				return p, true
			}
		}
	}
	return netip.Prefix{}, false
}

func in(list []netip.Prefix, ip netip.Addr) bool {
	return slices.ContainsFunc(list, func(p netip.Prefix) bool { return p.Contains(ip) })
}
