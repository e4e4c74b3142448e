package services

import (
	"net/netip"
	"strings"

	"github.com/penstock-project/penstock/discovery/store"
)

// Host turns an IP address or host name into IP addresses, sorted. Those of a name are the answers that
// discovery/hostname stored.
func Host(r store.Reader, address string) []netip.Addr {
	if ip, err := netip.ParseAddr(address); err == nil {
		return []netip.Addr{ip.Unmap()}
	}
	host, ok := store.Hosts.Get(r, strings.ToLower(address))
	if !ok {
		return nil
	}
	var out []netip.Addr
	for _, a := range host.Addresses {
		if ip, err := netip.ParseAddr(a); err == nil {
			out = append(out, ip.Unmap())
		}
	}
	return out
}
