package addresses

import "net/netip"

var (
	compatible = netip.MustParsePrefix("::/96")          // RFC 4291, 2.5.5.1; deprecated
	nat64      = netip.MustParsePrefix("64:ff9b::/96")   // RFC 6052
	localNAT64 = netip.MustParsePrefix("64:ff9b:1::/48") // RFC 8215
	sixToFour  = netip.MustParsePrefix("2002::/16")      // RFC 3056
)

func unwrap(ip netip.Addr) netip.Addr { return ip.Unmap().WithZone("") }

// embedded lists the IPv4 addresses that an unwrapped address may reach through NAT64 or a tunnel.
// If certain is false, only one of the addresses can be right.
func embedded(ip netip.Addr) (list []netip.Addr, certain bool) {
	if !ip.Is6() || ip == netip.IPv6Unspecified() || ip == netip.IPv6Loopback() {
		return nil, true
	}
	b := ip.As16()
	v4 := func(i, j, k, l int) netip.Addr { return netip.AddrFrom4([4]byte{b[i], b[j], b[k], b[l]}) }
	switch {
	case nat64.Contains(ip), compatible.Contains(ip):
		return []netip.Addr{v4(12, 13, 14, 15)}, true
	case sixToFour.Contains(ip):
		return []netip.Addr{v4(2, 3, 4, 5)}, true
	case localNAT64.Contains(ip):
		// The network chooses the prefix's length: 48, 56, 64 or 96 bits (RFC 6052, 2.2). With a
		// wrong length, most results begin with a zero byte, and 0.0.0.0/8 is no destination.
		for _, a := range []netip.Addr{v4(6, 7, 9, 10), v4(7, 9, 10, 11), v4(9, 10, 11, 12), v4(12, 13, 14, 15)} {
			if a.As4()[0] != 0 {
				list = append(list, a)
			}
		}
		return list, false
	}
	return nil, true
}
