package app

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"

	"github.com/penstock-project/penstock/xds/resource"
)

// Serving returns when every Envoy of a gateway, one at least, has acknowledged all listeners and route configurations
// that the gateway has now, and the revision that this was. A refused resource is not waited for: the board says so.
func (p *App) Serving(ctx context.Context, gateway string) (urls []string, rev uint64, err error) {
	for {
		p.progress.mu.Lock()
		rev = p.progress.rev
		p.progress.mu.Unlock()
		var refs []resource.Ref
		urls, refs = p.serves(gateway)
		// What a later revision takes away no Envoy will ever acknowledge: it is what the gateway has then that counts.
		waiting, stop := context.WithCancel(ctx)
		var watch sync.WaitGroup
		watch.Go(func() {
			defer stop()
			_ = p.After(waiting, rev) // its only error is that the wait is over
		})
		acked := p.acked(waiting, gateway, refs)
		stop()
		watch.Wait()
		if acked {
			return urls, rev, nil
		}
		if ctx.Err() != nil {
			return nil, rev, ctx.Err()
		}
	}
}

// acked waits for all of some resources to be acknowledged or refused, and says whether it came to that.
func (p *App) acked(ctx context.Context, gateway string, refs []resource.Ref) bool {
	for _, ref := range refs {
		if err := p.xds.WaitAcked(ctx, gateway, ref, ""); err != nil && ctx.Err() != nil {
			return false
		}
	}
	return true
}

// serves lists where a gateway can be reached, and the listeners and route configurations behind that. A port that
// another Gateway has is left out.
func (p *App) serves(gateway string) (urls []string, refs []resource.Ref) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, port := range p.translator.Ports(gateway) {
		if p.ports != nil && !p.ports.has(port.Listener, gateway) {
			continue
		}
		for _, a := range port.Addresses {
			urls = append(urls, address(port.Scheme, a, port.Number))
		}
	}
	for _, r := range p.translator.Resources(gateway) {
		if r.Type != resource.Listener && r.Type != resource.RouteConfiguration || p.ports != nil && !p.ports.given(r.Ref, gateway) {
			continue
		}
		refs = append(refs, r.Ref)
	}
	return urls, refs
}

// After returns when a revision later than rev has been translated.
func (p *App) After(ctx context.Context, rev uint64) error { return p.progress.wait(ctx, rev+1) }

// address writes an address as a person would type it on this machine.
func address(scheme, host string, port uint16) string {
	usual := map[string]uint16{"http": 80, "https": 443}[scheme]
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
