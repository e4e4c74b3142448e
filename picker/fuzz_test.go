package picker

import (
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

// Of a remote picker's entries, a pick names only addresses inside the declared ranges and ports,
// as package net parses them. Without ranges, it names no loopback, link-local or multicast
// address. All other entries are reported as out of range.
func FuzzRelay_NamesOnlyAllowedAddresses(f *testing.F) {
	for _, s := range []string{
		"10.1.2.3:8000", "10.1.2.3:8001", " 10.1.2.3:8000 ,[::ffff:10.1.2.3]:8000",
		"127.0.0.1:8000,[::1]:8000,[::ffff:127.0.0.1]:8000", "169.254.169.254:8000", "[fe80::1%eth0]:8000",
		"[2001:db8::1%x]:8000",
		"10.1.2.3", "10.1.2.3:", "10.1.2.3:0", "010.1.2.3:8000", "0x0a.1.2.3:8000", "10.1.2.3:8000:8000",
		"[64:ff9b::7f00:1]:8000", "255.255.255.255:8000", "0.0.0.0:8000,[::]:8000", "localhost:8000", "",
	} {
		f.Add(s)
	}
	ranges := []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("2001:db8::/32")}
	denied := netip.MustParsePrefix("10.1.9.0/24")
	p := &Picker{config: Config{Addresses: outsideOf{prefix: denied}}}
	f.Fuzz(func(t *testing.T, list string) {
		entries := strings.Split(list, ",")
		for _, relay := range []*Relay{{}, {Within: [][]netip.Prefix{ranges}, Ports: []uint16{8000}}} {
			addrs, outside := p.nameable(relay, entries)
			if len(addrs)+len(outside) != len(entries) {
				t.Errorf("%q: %v are allowed, %q are not; want each entry in one of them", entries, addrs, outside)
			}
			for _, a := range addrs {
				host, port, err := net.SplitHostPort(a.String())
				ip := net.ParseIP(host)
				switch {
				case ip != nil && ipNet(t, denied).Contains(ip):
					t.Errorf("%q: %s is outside the operator's ranges, want it left out", entries, a)
				case err != nil || ip == nil || port == "0":
					t.Errorf("%q: %s is no address, want it left out: %v", entries, a, err)
				case len(relay.Within) > 0 &&
					(port != "8000" || !slices.ContainsFunc(ranges,
						func(r netip.Prefix) bool { return ipNet(t, r).Contains(ip) })):
					t.Errorf("%q: %s is outside the declared ranges and ports, want it left out", entries, a)
				case len(relay.Within) == 0 &&
					(ip.IsLoopback() || ip.IsLinkLocalUnicast() || ip.IsMulticast() || ip.IsUnspecified() ||
						ip.Equal(net.IPv4bcast)):
					t.Errorf("%q: %s leads to this machine or link, want it left out", entries, a)
				}
			}
		}
	})
}

func ipNet(t *testing.T, p netip.Prefix) *net.IPNet {
	t.Helper()
	_, n, err := net.ParseCIDR(p.String())
	if err != nil {
		t.Fatal(err)
	}
	return n
}
