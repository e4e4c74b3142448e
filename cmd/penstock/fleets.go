package main

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"

	"github.com/spf13/cobra"

	"github.com/penstock-project/penstock/cmd/penstock/internal/app"
)

// defaultEnvoyImage is the Envoy that this release is tested with.
const defaultEnvoyImage = "docker.io/envoyproxy/envoy:distroless-v1.40.0"

// fleetFlags are how serve runs the proxies of Gateways.
type fleetFlags struct {
	penstockImage, envoyImage string
	addresses                 []string
	clientCA                  string
	openPicker                bool
	externalIPs               []string
}

func (o *fleetFlags) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.penstockImage, "penstock-image", "", "run the proxies of each Gateway, as Deployments, with this image of penstock beside Envoy; ADS is then served over TLS, to proxies that prove who they are. It needs --service and --peers-listen (default: others run the proxies)")
	f.StringVar(&o.envoyImage, "envoy-image", defaultEnvoyImage, "image of Envoy, where no EnvoyFleet names one")
	f.StringSliceVar(&o.addresses, "xds-address", nil, "HOST:PORT at which proxies reach ADS; may be repeated (default: --service, with the port of --xds)")
	f.BoolVar(&o.openPicker, "picker-open", false, "with --penstock-image, answer picks of anyone, gateways of other clusters for instance, and not of the Gateways' own proxies alone")
	f.StringSliceVar(&o.externalIPs, "external-ips", nil, "CIDR in which Gateways may have addresses that the nodes take (a Service's externalIPs), besides the one that a Service is given; may be repeated (default: none, because who may write a Gateway could take any address)")
	f.StringVar(&o.clientCA, "xds-client-ca", "", "file with the authorities that sign certificates of proxies that others run")
}

// config is nil if others run the proxies.
func (o *fleetFlags) config(cmd *cobra.Command, k *app.Kubernetes) (*app.Fleet, error) {
	if o.penstockImage == "" {
		return nil, nil
	}
	if k.Service == "" || cmd.Flag("peers-listen").Value.String() == "" {
		return nil, errors.New("--penstock-image needs --service, whose name is in the certificate of ADS, and --peers-listen")
	}
	out := &app.Fleet{ADS: o.addresses, Names: app.ServiceNames(k.Service), EnvoyImage: o.envoyImage, PenstockImage: o.penstockImage, OpenPicker: o.openPicker}
	if len(out.ADS) == 0 {
		_, port, err := net.SplitHostPort(cmd.Flag("xds").Value.String())
		if err != nil {
			return nil, fmt.Errorf("--xds: %w; or say where proxies reach it, with --xds-address", err)
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
	if o.clientCA != "" {
		raw, err := os.ReadFile(o.clientCA)
		if err != nil {
			return nil, fmt.Errorf("--xds-client-ca: %w", err)
		}
		out.ClientCA = x509.NewCertPool()
		if !out.ClientCA.AppendCertsFromPEM(raw) {
			return nil, fmt.Errorf("--xds-client-ca %s: no certificate in PEM", o.clientCA)
		}
	}
	return out, nil
}
