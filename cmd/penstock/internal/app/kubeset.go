package app

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"

	"github.com/penstock-project/penstock/discovery/kube"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/inferenceapi"
	"github.com/penstock-project/penstock/multicluster/set"
	"github.com/penstock-project/penstock/xds/admission/ports"
	"github.com/penstock-project/penstock/xds/fleet/apply"
)

type membership struct {
	set     *set.Set
	objects *set.Kubernetes
	leading atomic.Bool
}

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
	cfg := a.setConfig()
	cfg.Identity, cfg.Records, cfg.Local = m.objects.Identity, m.objects, set.LocalRecords(a.cfg.StateDir)
	cfg.Authority = apply.Secret{Cluster: secrets, Namespace: c.cfg.Namespace, Name: membersSecret}
	cfg.Leading, cfg.Exports, cfg.Imported = m.leading.Load, m.objects.SetExports, m.objects.Imported
	cfg.Namespace = func(name string) bool { return c.importsTo(a.store.View(), name) }
	cfg.Services = func(keys, pods []string) {
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
	}
	cfg.GatewayReached = func(r store.Reader, gateway report.Ref) ([]string, func(uint16) uint16) {
		return c.writer.Reached(r, gateway)
	}
	if listen := a.cfg.Members.Listen; listen != nil {
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
		cfg.PickersOf = func(r store.Reader) []netip.AddrPort { return replicas(r, c.cfg.Service, PickerPort, false) }
	}
	m.set = set.New(cfg)
	m.objects.Follow(m.set.Import)
	a.set = m.set
	if f, ok := c.proxies.(*fleets); ok {
		f.moved = m.set.GatewayMoved
	}
	return m, a.registry.Register(m.set)
}

func (c *cluster) importsTo(r store.Reader, name string) bool {
	if len(c.cfg.Namespaces) > 0 && !slices.Contains(c.cfg.Namespaces, name) {
		return false
	}
	if ns, ok := store.Namespaces.Get(r, name); ok {
		return ns.Status.Phase != corev1.NamespaceTerminating
	}
	return set.CreatesNamespaces(r)
}

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
