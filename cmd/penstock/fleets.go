package main

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spiffe/go-spiffe/v2/spiffeid"

	"github.com/penstock-project/penstock/cmd/penstock/internal/app"
	"github.com/penstock-project/penstock/xds/identity"
	"github.com/penstock-project/penstock/xds/wheel"
)

const defaultEnvoyImage = "docker.io/envoyproxy/envoy:distroless-v" + wheel.Version

type fleetFlags struct {
	penstockImage, envoyImage string
	addresses                 []string
	trustDomain               string
	externalIPs               []string
}

func (o *fleetFlags) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.penstockImage, "penstock-image", "", "image of penstock for the proxies' pods: with it, serve runs "+
		"a Deployment of proxies for each Gateway, and serves ADS over TLS to authenticated proxies only. Requires "+
		"--service and --peers-listen (default: none, and serve runs no proxies)")
	f.StringVar(&o.envoyImage, "envoy-image", defaultEnvoyImage,
		"image of Envoy for proxies whose EnvoyFleet names none")
	f.StringSliceVar(&o.addresses, "xds-address", nil, "address at which proxies reach ADS, as HOST:PORT; may be "+
		"repeated (default: --service, with the port of --xds)")
	f.StringSliceVar(&o.externalIPs, "external-ips", nil,
		"range, as CIDR, in which a Gateway's spec.addresses may become externalIPs of its Service; may be repeated. "+
			"Everyone who can write a Gateway can claim every address in it (default: none)")
	f.StringVar(&o.trustDomain, "xds-trust-domain", "",
		"trust domain, such as cluster.local: a SPIFFE ID of it, in a certificate that --xds-client-ca signed, names "+
			"a service account of this cluster; every process that --xds-client-ca signs for must use this domain "+
			"for this cluster alone (default: none, and a SPIFFE ID counts only where external.subjects names it)")
}

func (o *fleetFlags) config(cmd *cobra.Command, k *app.Kubernetes, s *secure) (*app.Fleet, error) {
	if o.penstockImage == "" {
		return nil, nil
	}
	if k.Service == "" || cmd.Flag("peers-listen").Value.String() == "" {
		return nil, errors.New("--penstock-image requires --peers-listen, and --service, whose name is in the " +
			"certificate of ADS")
	}
	if a := cmd.Flag("xds").Value.String(); a == "" || strings.HasPrefix(a, "unix:") {
		return nil, errors.New("--penstock-image requires --xds HOST:PORT, at which proxies in other pods reach ADS")
	}
	if s.cert != "" || s.key != "" || s.token != "" || s.ca != "" {
		return nil, errors.New("--xds-cert, --xds-key, --xds-ca and --xds-token have no effect with " +
			"--penstock-image, with which penstock issues its certificates: remove them")
	}
	out := &app.Fleet{ADS: o.addresses, Names: app.ServiceNames(k.Service), EnvoyImage: o.envoyImage,
		PenstockImage: o.penstockImage, OpenPicker: s.openPicker, TrustDomain: o.trustDomain}
	if len(out.ADS) == 0 {
		_, port, err := net.SplitHostPort(cmd.Flag("xds").Value.String())
		if err != nil {
			return nil, fmt.Errorf("--xds: %w; or set the address at which proxies reach ADS with --xds-address", err)
		}
		out.ADS = []string{net.JoinHostPort(out.Names[0], port)}
	}
	for _, text := range o.externalIPs {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("--external-ips %q: write a CIDR such as 192.0.2.0/24", text)
		}
		out.ExternalIPs = append(out.ExternalIPs, p)
	}
	if o.trustDomain != "" {
		if td, err := spiffeid.TrustDomainFromString(o.trustDomain); err != nil || td.Name() != o.trustDomain {
			return nil,
				fmt.Errorf("--xds-trust-domain %q: write the domain alone, such as cluster.local", o.trustDomain)
		}
	}
	if s.clientCA != "" {
		var err error
		if out.ClientCA, err = identity.Pool(&s.disk, s.clientCA); err != nil {
			return nil, fmt.Errorf("--xds-client-ca: %w", err)
		}
	}
	return out, nil
}
