package plane

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/penstock-project/penstock/xds/resource"
)

// Serving returns when every Envoy of a gateway, one at least, has acknowledged all listeners and route configurations
// that the gateway has now, and the revision that this was. A refused resource is not waited for: the board says so.
func (p *Plane) Serving(ctx context.Context, gateway string) (urls []string, rev uint64, err error) {
	p.progress.mu.Lock()
	rev = p.progress.rev
	p.progress.mu.Unlock()
	p.mu.Lock()
	ports, resources := p.translator.Ports(gateway), p.translator.Resources(gateway)
	p.mu.Unlock()
	for _, port := range ports {
		if p.ports != nil && !p.ports.has(port.Listener, gateway) {
			continue
		}
		for _, a := range port.Addresses {
			urls = append(urls, address(port.TLS, a, port.Number))
		}
	}
	for _, r := range resources {
		if r.Type != resource.Listener && r.Type != resource.RouteConfiguration || isPort(r.Ref) && p.ports != nil && !p.ports.has(r.Name, gateway) {
			continue
		}
		if err := p.xds.WaitAcked(ctx, gateway, r.Ref, ""); err != nil && ctx.Err() != nil {
			return nil, rev, err
		}
	}
	return urls, rev, nil
}

// After returns when a revision later than rev has been translated.
func (p *Plane) After(ctx context.Context, rev uint64) error { return p.progress.wait(ctx, rev+1) }

// address writes an address as a person would type it on this machine.
func address(tls bool, host string, port uint16) string {
	scheme, usual := "http", uint16(80)
	if tls {
		scheme, usual = "https", 443
	}
	if ip, err := netip.ParseAddr(host); err == nil && ip.IsUnspecified() {
		host = "localhost"
	}
	if port == usual {
		if strings.Contains(host, ":") {
			host = "[" + host + "]"
		}
		return scheme + "://" + host
	}
	return scheme + "://" + net.JoinHostPort(host, fmt.Sprint(port))
}
