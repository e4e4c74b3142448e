package app

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"

	"github.com/penstock-project/penstock/translator"
	"github.com/penstock-project/penstock/xds/resource"
)

type portOwners interface {
	Has(listener, gateway string) bool
	Served(ref resource.Ref, gateway string) bool
}

type everyPort struct{}

func (everyPort) Has(string, string) bool          { return true }
func (everyPort) Served(resource.Ref, string) bool { return true }

// Serving returns when an Envoy is connected, and all Envoys of the gateway have answered for all
// current listeners and route configurations.
func (a *App) Serving(ctx context.Context, gateway string) (urls []string, rev uint64, err error) {
	for {
		rev = a.progress.Revision()
		var refs []resource.Ref
		urls, refs = a.serves(gateway)
		// A later revision restarts the wait, because Envoys never acknowledge removed resources.
		waiting, stop := context.WithCancel(ctx)
		var watch sync.WaitGroup
		watch.Go(func() {
			defer stop()
			_ = a.After(waiting, rev) // fails only when waiting ends
		})
		acked := a.acked(waiting, gateway, refs)
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

func (a *App) acked(ctx context.Context, gateway string, refs []resource.Ref) bool {
	for _, ref := range refs {
		if err := a.xds.WaitAcked(ctx, gateway, ref, ""); err != nil && ctx.Err() != nil {
			return false
		}
	}
	return true
}

func (a *App) serves(gateway string) (urls []string, refs []resource.Ref) {
	a.translation.Read(func(t *translator.Translator) {
		for _, port := range t.Ports(gateway) {
			if !a.ports.Has(port.Listener, gateway) {
				continue
			}
			for _, host := range port.Addresses {
				urls = append(urls, address(port.Scheme, host, port.Number))
			}
		}
		for _, r := range t.Resources(gateway) {
			if (r.Type == resource.Listener || r.Type == resource.RouteConfiguration) &&
				a.ports.Served(r.Ref, gateway) {
				refs = append(refs, r.Ref)
			}
		}
	})
	return urls, refs
}

// After returns when a revision later than rev is delivered.
func (a *App) After(ctx context.Context, rev uint64) error { return a.progress.Wait(ctx, rev+1) }

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
