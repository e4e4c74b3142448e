package app

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health/grpc_health_v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/translator"
	"github.com/penstock-project/penstock/xds/authority"
	"github.com/penstock-project/penstock/xds/fleet"
	"github.com/penstock-project/penstock/xds/fleet/apply"
	"github.com/penstock-project/penstock/xds/fleet/render"
	"github.com/penstock-project/penstock/xds/identity"
	"github.com/penstock-project/penstock/xds/resource"
)

// Fleet has a App on Kubernetes run the proxies of its Gateways. ADS is then served over TLS, to proxies that prove who
// they are.
type Fleet struct {
	// ADS are the addresses ("host:port") by which proxies reach this and all other processes. At least one.
	ADS []string
	// Names are the DNS names of this process's certificate, the one that proxies verify first.
	Names []string
	// EnvoyImage and PenstockImage are what proxies run; see render.Settings.
	EnvoyImage, PenstockImage string
	// ExternalIPs are ranges; see render.Settings.
	ExternalIPs []netip.Prefix
	// OpenPicker lets anyone ask for picks, gateways of other clusters for instance. Else only the proxies of Gateways may.
	OpenPicker bool
	// ClientCA verifies certificates of proxies that somebody else runs; nil: they need a token.
	ClientCA *x509.CertPool
}

// authoritySecret is the Secret, beside the Lease, with the authority of the certificates.
const authoritySecret = "penstock-ca"

// fleets is what only a App has that runs proxies.
type fleets struct {
	cfg       Fleet
	objects   *apply.Cluster
	authority *authority.Authority
	guard     *identity.Guard
	*fleet.Fleets
}

func (p *App) newFleets(cfg Fleet) (*fleets, error) {
	f := &fleets{cfg: cfg}
	k := p.cfg.Kubernetes
	var err error
	f.objects, err = apply.New(apply.Config{REST: k.REST, Changed: func(ref apply.Ref) { f.Changed(ref) }})
	if err != nil {
		return nil, err
	}
	f.authority = authority.New(authority.Config{
		Secrets: apply.Secret{Cluster: f.objects, Namespace: k.Namespace, Name: authoritySecret},
		Names:   cfg.Names, Changed: func() { p.authorityChanged(f) }, Log: p.log,
	})
	f.Fleets = fleet.New(fleet.Config{
		Store: p.store, Cluster: f.objects, Follow: f.objects.Run, Settings: f.settings, Board: p.board, Log: p.log,
	})
	f.guard = identity.New(identity.Config{Reviewer: f.objects, Members: f.Fleets})
	return f, nil
}

// pickKeys is what keys for calls to the picker are derived for.
const pickKeys = "picker"

// authorityChanged tells fleets, which have it in a file, and translation, for the picker's cluster.
func (p *App) authorityChanged(f *fleets) {
	f.Refresh()
	own := &store.Authority{ObjectMeta: metav1.ObjectMeta{Name: store.OwnAuthority}, CA: f.authority.Bundle(), Key: f.authority.Keys(pickKeys)[0]}
	if _, err := p.store.Apply(store.Authorities.Put(own)); err != nil {
		p.log.Error("the certificate authority could not be stored; what proxies have stays", "error", err)
	}
}

// guardPicks are the options of the picker's server: TLS, and unless anyone may ask, a key that proxies have from their
// configuration. Health checks carry none.
func (f *fleets) guardPicks() []grpc.ServerOption {
	if f.cfg.OpenPicker {
		return f.secure()
	}
	return append(f.secure(), identity.WithKey(func() []string { return f.authority.Keys(pickKeys) }, grpc_health_v1.Health_ServiceDesc.ServiceName)...)
}

func (f *fleets) settings() render.Settings {
	return render.Settings{
		ADS: f.cfg.ADS, ServerName: f.cfg.Names[0], CA: f.authority.Bundle(), EnvoyImage: f.cfg.EnvoyImage, PenstockImage: f.cfg.PenstockImage,
		ExternalIPs: f.cfg.ExternalIPs,
	}
}

// lead keeps the fleets while this process leads.
func (f *fleets) lead(ctx context.Context) error {
	if err := f.authority.Ready(ctx); err != nil {
		return err
	}
	return f.Run(ctx)
}

// secure are the options of a gRPC server whose certificate the authority keeps.
func (f *fleets) secure() []grpc.ServerOption {
	cfg := &tls.Config{MinVersion: tls.VersionTLS13, GetCertificate: f.authority.GetCertificate}
	if f.cfg.ClientCA != nil {
		cfg.ClientCAs, cfg.ClientAuth = f.cfg.ClientCA, tls.VerifyClientCertIfGiven
	}
	return []grpc.ServerOption{grpc.Creds(credentials.NewTLS(cfg))}
}

// concerns says whether a change may be one of fleets.
func concerns(changes []store.Change, out translator.Output) bool {
	tables := []string{store.Gateways.Kind(), store.GatewayClasses.Kind(), store.EnvoyFleets.Kind()}
	isListener := func(r resource.Ref) bool { return r.Type == resource.Listener }
	return slices.ContainsFunc(changes, func(c store.Change) bool { return slices.Contains(tables, c.Table) }) ||
		slices.ContainsFunc(out.Deltas, func(d translator.Delta) bool {
			return d.Gone || slices.ContainsFunc(d.Removes, isListener) ||
				slices.ContainsFunc(d.Upserts, func(r *resource.Resource) bool { return isListener(r.Ref) })
		})
}

// tellFleets says which Gateways there are; whose proxy somebody is may have changed with them.
func (p *App) tellFleets() {
	var list []fleet.Gateway
	p.mu.Lock()
	for _, name := range p.translator.Gateways() {
		g := fleet.Gateway{Name: name, Spec: p.translator.Fleet(name)}
		for _, port := range p.translator.Ports(name) {
			g.Bound = append(g.Bound, render.Port{Number: int32(port.Number), Name: port.Scheme})
		}
		list = append(list, g)
	}
	p.mu.Unlock()
	p.cluster.fleets.Set(list)
	p.xds.Recheck()
}

// together runs functions until one of them ends.
func together(ctx context.Context, runs ...func(context.Context) error) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, run := range runs {
		group.Go(func() error { return run(ctx) })
	}
	return group.Wait()
}

// ServiceNames are the names by which a Service is known in its cluster, the one that works from every namespace first.
func ServiceNames(service string) []string {
	ns, name, _ := strings.Cut(service, "/")
	full := name + "." + ns + ".svc"
	return []string{full, name + "." + ns, name, fmt.Sprintf("%s.cluster.local", full)}
}
