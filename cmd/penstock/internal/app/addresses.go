package app

import (
	"context"
	"net"
	"net/netip"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/penstock-project/penstock/discovery/hostname"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/translator/addresses"
)

// Addresses limits the addresses of endpoints and configures the resolver.
type Addresses struct {
	// Ranges limits the addresses in users' objects, and in answers of DNS and of remote pickers.
	addresses.Ranges
	ExternalName bool
	// DNS is the server that resolves names. The zero AddrPort is the system's resolver.
	DNS netip.AddrPort

	shared bool // the users who write the objects do not trust each other
	own    string
}

// FolderAddresses returns the limits for objects from files: any address except link-local and
// similar ones.
func FolderAddresses() Addresses {
	return Addresses{Ranges: addresses.Ranges{Allowed: addresses.Everything(), Loopback: true}, ExternalName: true}
}

func (a Addresses) policy() store.Op {
	p := &store.AddressPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: store.OwnAddressPolicy}, Loopback: a.Loopback, ExternalName: a.ExternalName,
		Shared: a.shared, Own: a.own,
	}
	for _, r := range a.Allowed {
		p.Allowed = append(p.Allowed, r.String())
	}
	for _, r := range a.Denied {
		p.Denied = append(p.Denied, r.String())
	}
	return store.AddressPolicies.Put(p)
}

func (a Addresses) lookup() hostname.Lookup {
	if !a.DNS.IsValid() {
		return nil
	}
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, a.DNS.String())
	}}
}
