package services

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/translator/addresses"
)

// Host is the result of resolving an IP address or host name.
type Host struct {
	Addresses []netip.Addr // allowed endpoints, sorted
	// Outside describes an address that may not become an endpoint, and why; "" for none.
	Outside string
	// Unresolved describes why a name has no addresses; "" if it has some. Failed means that a
	// lookup failed.
	Unresolved string
	Failed     bool
}

// Lookup resolves an IP address or host name. It marks the name as used, so that discovery/hostname
// resolves it repeatedly.
func Lookup(r store.Reader, address string) Host {
	return find(r, address, func(name string) (*store.Host, bool) { return store.Hosts.Get(r, name) })
}

// Mention is Lookup, but does not mark the name as used.
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
		return out // a lookup of this text would store a Host without a name
	}
	known, ok := host(strings.ToLower(address))
	if !ok || len(known.Addresses) == 0 {
		out.Unresolved = fmt.Sprintf("host name %s has no address yet", address)
		if ok && known.Error != "" {
			out.Unresolved, out.Failed = fmt.Sprintf("host name %s does not resolve: %s", address, known.Error), true
		}
		return out
	}
	for _, a := range known.Addresses {
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
