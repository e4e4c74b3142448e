package main

import (
	"fmt"
	"net/netip"

	"github.com/spf13/cobra"

	"github.com/penstock-project/penstock/cmd/penstock/internal/app"
	"github.com/penstock-project/penstock/translator/addresses"
)

type addressFlags struct {
	allowed, denied []string
	externalName    bool
	dns             string
}

func (a *addressFlags) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringSliceVar(&a.allowed, "allowed-cidrs", nil,
		"range, as CIDR, of endpoints that users write (ModelServers, InferencePoolImports), that host names resolve "+
			"to, or that remote pickers name; may be repeated. Link-local, multicast and unspecified addresses are "+
			"never allowed, nor is loopback in Kubernetes (default: all for files, none for Kubernetes)")
	f.StringSliceVar(&a.denied, "denied-cidrs", nil,
		"range, as CIDR, that is excluded from --allowed-cidrs and from EndpointSlices that users write: in "+
			"Kubernetes the ranges of pods, Services, nodes and the API server; may be repeated (default: none)")
	f.BoolVar(&a.externalName, "allow-external-name", false, "in Kubernetes, let Services of type ExternalName have "+
		"endpoints, if their addresses are inside --allowed-cidrs; for files they always have")
	f.StringVar(&a.dns, "dns-server", "",
		"DNS server that resolves the host names in objects, as IP:PORT (default: the system's)")
}

func (a *addressFlags) config(cluster bool) (out app.Addresses, err error) {
	if !cluster {
		out = app.FolderAddresses()
	}
	out.ExternalName = out.ExternalName || a.externalName
	if len(a.allowed) > 0 {
		if out.Allowed, err = cidrs("--allowed-cidrs", a.allowed); err != nil {
			return out, err
		}
	}
	if out.Denied, err = cidrs("--denied-cidrs", a.denied); err != nil {
		return out, err
	}
	if a.dns != "" {
		if out.DNS, err = netip.ParseAddrPort(a.dns); err != nil {
			return out, fmt.Errorf("--dns-server %q: write IP:PORT, such as 10.96.0.10:53", a.dns)
		}
	}
	return out, nil
}

func cidrs(flag string, texts []string) (out []netip.Prefix, err error) {
	for _, text := range texts {
		p, err := addresses.ParseRange(text)
		if err != nil {
			return nil, fmt.Errorf("%s %q: %w; write a CIDR such as 192.0.2.0/24", flag, text, err)
		}
		out = append(out, p)
	}
	return out, nil
}
