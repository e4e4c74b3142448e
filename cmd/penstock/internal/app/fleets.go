package app

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/netip"
	"slices"

	"google.golang.org/grpc"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/penstock-project/penstock/cmd/penstock/internal/delivery"
	"github.com/penstock-project/penstock/discovery/status"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/translator"
	"github.com/penstock-project/penstock/xds/authority"
	"github.com/penstock-project/penstock/xds/fleet"
	"github.com/penstock-project/penstock/xds/fleet/apply"
	"github.com/penstock-project/penstock/xds/fleet/render"
	"github.com/penstock-project/penstock/xds/identity"
	"github.com/penstock-project/penstock/xds/server"
)

// Fleet runs the proxies of Gateways in the cluster, and serves ADS to them over TLS.
type Fleet struct {
	// ADS are the addresses ("host:port") at which proxies reach the processes; at least one.
	ADS []string
	// Names are the DNS names of this process's certificate. Proxies verify the first name.
	Names                     []string
	EnvoyImage, PenstockImage string
	ExternalIPs               []netip.Prefix
	// OpenPicker lets every client pick. Otherwise only proxies of Gateways may.
	OpenPicker bool
	// ClientCA verifies certificates of proxies that run elsewhere; nil: such proxies need a token.
	ClientCA *x509.CertPool
	// TrustDomain is the trust domain of the SPIFFE IDs in these certificates; "": none.
	TrustDomain string
}

type fleets struct {
	cfg       Fleet
	core      core
	recheck   func()
	objects   *apply.Cluster
	authority *authority.Authority
	guard     *identity.Guard
	moved     func(gateway report.Ref) // called when the addresses of a Gateway may have changed; may be nil
	*fleet.Fleets
}

type fleetBoard struct {
	*status.Board
	fleets *fleets
}

func (b fleetBoard) Set(source string, reports ...report.Report) {
	b.Board.Set(source, reports...)
	for _, r := range reports {
		if b.fleets.moved != nil {
			b.fleets.moved(r.Owner)
		}
	}
}

func newFleets(cfg Fleet, k Kubernetes, c core, recheck func(), unreachable func() bool) (*fleets, error) {
	f := &fleets{cfg: cfg, core: c, recheck: recheck}
	var err error
	f.objects, err = apply.New(apply.Config{REST: k.REST, Namespaces: k.Namespaces,
		Changed: func(ref apply.Ref) { f.Changed(ref) }})
	if err != nil {
		return nil, err
	}
	f.authority = authority.New(authority.Config{
		Secrets: apply.Secret{Cluster: f.objects, Namespace: k.Namespace, Name: authoritySecret},
		Names:   cfg.Names, Changed: f.authorityChanged, Now: clock(), Log: c.log,
	})
	f.Fleets = fleet.New(fleet.Config{
		Store: c.store, Cluster: f.objects, Follow: f.objects.Run, Settings: f.settings, Board: fleetBoard{c.board, f},
		OnPanic: c.panics.of(partTranslation), Log: c.log,
	})
	f.guard = identity.New(identity.Config{Reviewer: f.objects, Members: f.Fleets, TrustDomain: cfg.TrustDomain,
		ClientCAs: cfg.ClientCA, Unreachable: unreachable, Now: elapsed(), Wall: clock()})
	return f, nil
}

func (f *Fleet) translation(out *translator.Config) {
	out.PickerName, out.ReservedPort = f.Names[0], render.ReadyPort
	out.InvalidFleet = func(spec *v1alpha1.EnvoyFleetSpec) (field, problem, fix string) {
		if bad := render.Problem(spec); bad != nil {
			return bad.Field, bad.Problem, bad.Fix
		}
		return "", "", ""
	}
}

// pickKeys is the purpose for which the authority derives the root keys of calls to the picker.
const pickKeys = "picker"

// authorityChanged passes a new authority to translation and to fleets, whose proxies mount it.
func (f *fleets) authorityChanged() {
	f.Refresh()
	own := &store.Authority{ObjectMeta: metav1.ObjectMeta{Name: store.OwnAuthority}, CA: f.authority.Bundle(),
		Key: f.authority.Keys(pickKeys)[0]}
	if _, err := f.core.store.Apply(store.Authorities.Put(own)); err != nil {
		f.core.log.Error("the certificate authority cannot be stored; proxies keep the previous one", "error", err)
	}
}

func (f *fleets) security(p Peers) security {
	s := security{log: f.core.log, authenticate: f.authenticate,
		ads:   []grpc.ServerOption{grpc.Creds(identity.ServerCredentials(f.secure(tls.VersionTLS13), f.core.log))},
		picks: f.secure(lowestForPicks(f.cfg.OpenPicker))}
	s.guardPicks(func() []string { return f.authority.Keys(pickKeys) }, f.cfg.OpenPicker)
	if p.TLS != nil {
		s.peerTLS(*p.TLS)
	} else {
		server, client := f.authority.Mutual(f.cfg.Names[0])
		s.peerTLS(MutualTLS{Server: server, Client: client})
	}
	return s
}

func (f *fleets) authenticate(ctx context.Context) (server.Proxy, error) {
	c, err := f.guard.Authenticate(ctx)
	if err != nil {
		return nil, err
	}
	return c, nil
}

func (f *fleets) ready(ctx context.Context) error { return f.authority.Ready(ctx) }

func (f *fleets) run(ctx context.Context) error { return f.authority.Run(ctx) }

func (f *fleets) settings() render.Settings {
	return render.Settings{
		ADS: f.cfg.ADS, ServerName: f.cfg.Names[0], CA: f.authority.Bundle(), EnvoyImage: f.cfg.EnvoyImage,
		PenstockImage: f.cfg.PenstockImage,
		ExternalIPs:   f.cfg.ExternalIPs,
	}
}

func (f *fleets) lead(ctx context.Context) error {
	if err := f.authority.Ready(ctx); err != nil {
		return err
	}
	return f.Run(ctx)
}

func (f *fleets) secure(lowest uint16) *tls.Config {
	return f.guard.TLS(&tls.Config{MinVersion: lowest, GetCertificate: f.authority.GetCertificate})
}

func (f *fleets) observe(ch *delivery.Change) {
	tables := []string{store.Gateways.Kind(), store.GatewayClasses.Kind(), store.EnvoyFleets.Kind()}
	if !slices.ContainsFunc(ch.Objects, func(c store.Change) bool { return slices.Contains(tables, c.Table) }) &&
		!slices.ContainsFunc(ch.Output.Deltas, func(d translator.Delta) bool { return d.Gone || changesListeners(d) }) {
		return
	}
	var list []fleet.Gateway
	f.core.translation.Read(func(t *translator.Translator) {
		for _, name := range t.Gateways() {
			g := fleet.Gateway{Name: name, Spec: t.Fleet(name)}
			for _, port := range t.Ports(name) {
				g.Bound = append(g.Bound, render.Port{Number: int32(port.Number), UDP: port.UDP, Name: port.Scheme})
			}
			if port := t.PeerPort(name); port > 0 {
				g.Bound = append(g.Bound, render.Port{Number: int32(port), Name: "peer"})
			}
			list = append(list, g)
		}
	})
	f.Set(list)
	f.recheck()
}

// ServiceNames returns the DNS names of a Service. The first works from every namespace.
func ServiceNames(service string) []string {
	ns, name := store.ParseID(service)
	full := name + "." + ns + ".svc"
	return []string{full, name + "." + ns, name, fmt.Sprintf("%s.cluster.local", full)}
}
