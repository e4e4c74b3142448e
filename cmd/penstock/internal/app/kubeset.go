package app

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"

	"github.com/penstock-project/penstock/cmd/internal/ports"
	"github.com/penstock-project/penstock/discovery/kube"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/inferenceapi"
	"github.com/penstock-project/penstock/multicluster/set"
	"github.com/penstock-project/penstock/xds/fleet/apply"
)

type membership struct {
	set     *set.Set
	objects *set.Kubernetes
	leading atomic.Bool
}

// newMembership makes a membership. It is idle until there is a ClusterSet.
func newMembership(a *App, c *cluster) (*membership, error) {
	m := &membership{}
	var err error
	m.objects, err = set.NewKubernetes(set.KubernetesConfig{
		REST: c.cfg.REST, Namespace: c.cfg.Namespace, Lease: leaseName, Namespaces: c.cfg.Namespaces, Store: a.store,
		Board: a.board, Log: a.log,
		Live: func(ref report.Ref) *inferenceapi.InferencePoolImportStatus {
			live, ok := c.source.Live(ref)
			if !ok {
				return nil
			}
			return live.Status.(*inferenceapi.InferencePoolImportStatus)
		},
	})
	if err != nil {
		return nil, err
	}
	secrets, err := apply.New(apply.Config{REST: c.cfg.REST, Namespaces: c.cfg.Namespaces, Changed: func(apply.Ref) {}})
	if err != nil {
		return nil, err
	}
	cfg := set.Config{
		Store: a.store, Board: a.board, StateDir: a.cfg.StateDir, Address: a.cfg.Members.Address,
		Listen:   a.cfg.Members.Listen,
		Identity: m.objects.Identity, Authority: apply.Secret{
			Cluster: secrets, Namespace: c.cfg.Namespace, Name: membersSecret,
		}, Records: m.objects, Local: set.LocalRecords(a.cfg.StateDir),
		Leading: m.leading.Load, Namespace: func(name string) bool { return c.importsTo(a.store.View(), name) },
		Exports: m.objects.SetExports, Imported: m.objects.Imported,
		Services: func(keys, pods []string) {
			var demands []kube.Demand
			for _, key := range keys {
				demands = append(demands, kube.Demand{
					Table: store.EndpointSlices.Kind(), Index: store.ByService, Key: key,
				})
			}
			for _, key := range pods {
				demands = append(demands, kube.Demand{Table: store.Pods.Kind(), Index: store.ByLabel, Key: key})
			}
			c.source.Keep(demands)
		},
		GatewayReached: func(r store.Reader, gateway report.Ref) ([]string, func(uint16) uint16) {
			return c.writer.Reached(r, gateway)
		},
		ServerOptions: a.memberOptions(), Drain: a.cfg.DrainTime, Now: clock(), Log: a.log,
		OnPanic: a.panics.of(partStream),
	}
	if listen := cfg.Listen; listen != nil {
		cfg.Listen = func(ctx context.Context) (net.Listener, error) {
			l, err := listen(ctx)
			if err != nil {
				return nil, err
			}
			return a.admit(ports.Members, l, true), nil
		}
	}
	open, cleartext := a.cfg.Credentials == nil || a.cfg.Credentials.OpenPicker, a.cfg.Credentials == nil
	if c.cfg.Fleet != nil {
		open, cleartext = c.cfg.Fleet.OpenPicker, false
	}
	cfg.Cleartext, cfg.MembersPick, cfg.PickerService = cleartext, !open, c.cfg.Service
	if c.cfg.Service == "" {
		cfg.Pickers = a.cfg.translation().Pickers
	} else {
		cfg.PickersOf = func(r store.Reader) []netip.AddrPort { return pickersIn(r, c.cfg.Service) }
	}
	cfg.Load, cfg.Offers = a.clusterLoads.Receive, a.cfg.offers()
	cfg.InFlight, cfg.Traffic = func() int64 { return a.picker.Imported() }, a.memberTraffic
	m.set = set.New(cfg)
	m.objects.Follow(m.set.Import)
	a.set = m.set
	if f, ok := c.proxies.(*fleets); ok {
		f.moved = m.set.GatewayMoved
	}
	return m, a.registry.Register(m.set)
}

// importsTo reports whether a namespace exists, or may be created.
func (c *cluster) importsTo(r store.Reader, name string) bool {
	if len(c.cfg.Namespaces) > 0 && !slices.Contains(c.cfg.Namespaces, name) {
		return false
	}
	if ns, ok := store.Namespaces.Get(r, name); ok {
		return ns.Status.Phase != corev1.NamespaceTerminating
	}
	return set.CreatesNamespaces(r)
}

// pickersIn are the pickers of all ready processes behind our Service.
func pickersIn(r store.Reader, service string) (out []netip.AddrPort) {
	for _, slice := range store.EndpointSlices.By(r, store.ByService, service) {
		for _, p := range slice.Ports {
			if p.Name == nil || *p.Name != PickerPort || p.Port == nil {
				continue
			}
			for _, e := range slice.Endpoints {
				if e.Conditions.Ready != nil && !*e.Conditions.Ready {
					continue
				}
				for _, text := range e.Addresses {
					if a, err := netip.ParseAddr(text); err == nil {
						out = append(out, netip.AddrPortFrom(a, uint16(*p.Port)))
					}
				}
			}
		}
	}
	slices.SortFunc(out, netip.AddrPort.Compare)
	return slices.Compact(out)
}

// lead publishes, and writes the objects of the cluster set, until ctx ends.
func (m *membership) lead(ctx context.Context) error {
	m.leading.Store(true)
	m.set.LeadingChanged()
	end := context.AfterFunc(ctx, func() {
		m.leading.Store(false)
		m.set.LeadingChanged()
	})
	defer end()
	return m.objects.Lead(ctx)
}
