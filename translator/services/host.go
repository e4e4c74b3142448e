package services

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/translator/addresses"
)

// Host is what an IP address or host name that a user wrote stands for.
type Host struct {
	Addresses []netip.Addr // those that may become endpoints, sorted
	// Outside is set if there are addresses that may not: which one and why, as a sentence without
	// a period.
	Outside string
	// Unresolved is set if a name has no addresses: why, as such a sentence. Failed is set if it
	// was looked up.
	Unresolved string
	Failed     bool
}

// Lookup finds what an IP address or host name stands for, and makes a name used, so that
// discovery/hostname resolves it.
func Lookup(r store.Reader, address string) Host {
	return find(r, address, func(name string) (*store.Host, bool) { return store.Hosts.Get(r, name) })
}

// Mention is Lookup for what reports about an object alone: it does not make a name used.
func Mention(r store.Reader, address string) Host {
	return find(r, address, func(name string) (*store.Host, bool) {
		if list := store.Hosts.By(r, store.ByMention, name); len(list) > 0 {
			return list[0], true
		}
		return nil, false
	})
}

func find(r store.Reader, address string, host func(name string) (*store.Host, bool)) (out Host) {
	policy := addresses.Of(r)
	if ip, err := netip.ParseAddr(address); err == nil {
		if why := policy.Written(ip); why != "" {
			out.Outside = fmt.Sprintf("address %s %s", address, why)
			return out
		}
		out.Addresses = []netip.Addr{ip.Unmap()}
		return out
	}
	if out.Outside = addresses.Neither(address); out.Outside != "" {
		return out // to look it up would be to store a Host without a name
	}
	is, ok := host(strings.ToLower(address))
	if !ok || len(is.Addresses) == 0 {
		out.Unresolved = fmt.Sprintf("host name %s has no address yet", address)
		if ok && is.Error != "" {
			out.Unresolved, out.Failed = fmt.Sprintf("host name %s does not resolve: %s", address, is.Error), true
		}
		return out
	}
	for _, a := range is.Addresses {
		ip, err := netip.ParseAddr(a)
		if err != nil {
			continue
		}
		if why := policy.Written(ip); why == "" {
			out.Addresses = append(out.Addresses, ip.Unmap())
		} else if out.Outside == "" {
			out.Outside = fmt.Sprintf("host name %s resolves to %s, which %s", address, a, why)
		}
	}
	slices.SortFunc(out.Addresses, netip.Addr.Compare)
	return out
}
