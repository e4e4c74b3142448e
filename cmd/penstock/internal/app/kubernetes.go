package app

import (
	"context"
	"log/slog"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/penstock-project/penstock/cmd/penstock/internal/delivery"
	"github.com/penstock-project/penstock/cmd/penstock/internal/peers"
	"github.com/penstock-project/penstock/cmd/penstock/internal/pipeline"
	"github.com/penstock-project/penstock/discovery/kube"
	"github.com/penstock-project/penstock/discovery/kube/leader"
	"github.com/penstock-project/penstock/discovery/status"
	"github.com/penstock-project/penstock/discovery/status/kubestatus"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/translator"
	"github.com/penstock-project/penstock/xds/resource"
)

const (
	leaseName = "penstock"
	// The API server is unreachable after contactTimeout without an answer. It is called every two
	// seconds.
	contactTimeout = 10 * time.Second
)

type cluster struct {
	cfg        Kubernetes
	source     *kube.Source
	writer     *kubestatus.Writer
	leader     *leader.Elector
	programmed *peers.Programmed
	gated      gated
	members    *membership
	proxies    proxyRunner
}

type proxyRunner interface {
	security(Peers) security
	ready(context.Context) error
	// Every process calls run. The leader also calls lead.
	run(context.Context) error
	lead(context.Context) error
	observe(*delivery.Change)
}

type externalProxies struct{ log *slog.Logger }

func (e externalProxies) security(p Peers) security    { return openSecurity(p, e.log) }
func (externalProxies) ready(context.Context) error    { return nil }
func (externalProxies) run(ctx context.Context) error  { <-ctx.Done(); return ctx.Err() }
func (externalProxies) lead(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
func (externalProxies) observe(*delivery.Change)       {}

// NewKubernetes makes an App that serves the objects of a Kubernetes cluster. It starts nothing.
func NewKubernetes(cfg Config, k Kubernetes) (*App, error) {
	core, err := newCore(cfg.StateDir, k.translation(cfg), k.addresses(cfg), nil, cfg.Log)
	if err != nil {
		return nil, err
	}
	c := &cluster{cfg: k, proxies: externalProxies{cfg.Log}, gated: gated{}}
	c.source, err = kube.New(kube.Config{REST: k.REST, Store: core.store, Namespaces: k.Namespaces, Log: cfg.Log,
		Report: func(reports []report.Report) { core.board.Replace(status.Cluster, reports...) }})
	if err != nil {
		return nil, err
	}
	if c.leader, err = leader.New(leader.Config{REST: k.REST, Namespace: k.Namespace, Name: leaseName,
		Identity: k.Identity, Log: cfg.Log}); err != nil {
		return nil, err
	}
	var a *App
	if k.Fleet != nil {
		if c.proxies, err = newFleets(*k.Fleet, k, core, func() { a.xds.Recheck() }, c.unreachable); err != nil {
			return nil, err
		}
	}
	a, err = newApp(cfg, core,
		wiring{security: c.proxies.security(cfg.Peers), lagging: c.lagging, written: c.written,
			apiServers: apiServers(k.REST), apiEndpoints: (&apiEndpoints{rest: k.REST, now: time.Now}).Get,
			proxies: func(gateway string) { c.writer.DeliveryChanged(gateway) }})
	if err != nil {
		return nil, err
	}
	c.programmed = peers.NewProgrammed(peers.ProgrammedConfig{
		Channel: a.channel, Proxies: a.proxies, Acks: a.xds, Resources: a.translation.Listeners,
		Version: a.cache.Current, Policies: c.gated.at,
		Changed: func(gateway string) { c.writer.DeliveryChanged(gateway) }, Log: cfg.Log,
	})
	c.writer, err = kubestatus.New(kubestatus.Config{
		Source: c.source, Store: core.store, Board: core.board, Delivery: c.programmed, Controller: Controller,
		Features: k.Features, Log: cfg.Log,
		OnPanic: core.panics.of(partStatus),
	})
	if err != nil {
		return nil, err
	}
	if err := registerCluster(a.registry, c); err != nil {
		return nil, err
	}
	if c.members, err = newMembership(a, c); err != nil {
		return nil, err
	}
	fetch := pipeline.NewFetch(c.source, a.translation, cfg.Log)
	observe := delivery.On(delivery.Observe, func(_ context.Context, ch *delivery.Change) { c.observe(a, ch) })
	// syncPeers is last, because the peers' addresses come from a Service, which is translated
	// first.
	line := a.pipeline(pipeline.Config{Fetch: fetch,
		First: []func(context.Context){c.members.set.Restore, c.members.set.Settle, c.members.set.AwaitCertificate,
			a.settleNames, a.probeAnswers, a.syncPeers}}, observe, delivery.On(delivery.Observe, a.followSet),
		delivery.On(delivery.Report, a.unsupported),
		delivery.On(delivery.Observe, func(_ context.Context, ch *delivery.Change) {
			c.members.objects.Changed(ch.View, ch.Objects)
		}))
	a.run = func(ctx context.Context) error { return c.run(ctx, a, line) }
	return a, nil
}

func (c *cluster) written(ref report.Ref) any {
	live, ok := c.source.Live(ref)
	if !ok {
		return nil
	}
	return live.Status
}

// lagging reports whether objects may be outdated. Nothing may then be removed from proxies.
func (c *cluster) lagging() bool {
	return c.source.Lagging() || c.unreachable()
}

func (c *cluster) unreachable() bool { return time.Since(c.leader.LastContact()) > contactTimeout }

// run serves health at once, and everything else after it has read the cluster.
func (c *cluster) run(ctx context.Context, a *App, line *pipeline.Pipeline) error {
	group, ctx := errgroup.WithContext(ctx)
	if err := a.servePages(ctx, group); err != nil {
		return err
	}
	group.Go(func() error { return quiet(ctx, c.source.Run(ctx)) })
	group.Go(func() error { return quiet(ctx, c.programmed.Run(ctx)) })
	group.Go(func() error { return quiet(ctx, c.proxies.run(ctx)) })
	group.Go(func() error {
		if err := c.source.Synced(ctx); err != nil {
			return quiet(ctx, err)
		}
		return quiet(ctx, c.leader.Run(ctx, c.lead))
	})
	group.Go(func() error {
		if err := c.source.Synced(ctx); err != nil {
			return quiet(ctx, err)
		}
		if err := a.hosts.Restore(); err != nil {
			return err
		}
		if err := c.proxies.ready(ctx); err != nil {
			return quiet(ctx, err)
		}
		a.serve(ctx, group, line)
		group.Go(func() error { return quiet(ctx, c.members.set.Run(ctx)) })
		return nil
	})
	return group.Wait()
}

func (c *cluster) lead(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return c.writer.Lead(ctx) })
	group.Go(func() error { return c.proxies.lead(ctx) })
	group.Go(func() error { return c.members.lead(ctx) })
	return group.Wait()
}

func (k *Kubernetes) translation(cfg Config) translator.Config {
	out := cfg.translation()
	out.AnyClass, out.BehindService, out.Slices, out.OnDemand = false, true, true, kube.OnDemand()
	out.PickerService, out.PickerPort = k.Service, PickerPort
	if k.Fleet != nil {
		k.Fleet.translation(&out)
	}
	return out
}

// addresses sets shared, because users who write objects do not trust each other.
func (k *Kubernetes) addresses(cfg Config) Addresses {
	out := cfg.Addresses
	out.shared, out.own = true, k.Service
	return out
}

func (c *cluster) observe(a *App, ch *delivery.Change) {
	own := false
	gateways := map[string]struct{}{}
	for _, o := range ch.Objects {
		switch o.Table {
		case store.Gateways.Kind():
			gateways[o.ID] = struct{}{}
		case store.EndpointSlices.Kind():
			own = own || c.cfg.Service != "" && slices.Contains(o.Keys,
				store.IndexKey{Index: store.ByService, Key: c.cfg.Service})
		}
	}
	for _, d := range ch.Output.Deltas {
		if changesListeners(d) {
			gateways[d.Gateway] = struct{}{}
		}
	}
	for _, gateway := range c.gated.follow(ch) {
		gateways[gateway] = struct{}{}
	}
	for key := range gateways {
		if gw, ok := store.Gateways.Get(ch.View, key); ok {
			c.programmed.Expect(key, gw.Generation)
		} else {
			c.programmed.Drop(key)
		}
	}
	c.proxies.observe(ch)
	if own {
		var peers []string
		for _, at := range replicas(ch.View, c.cfg.Service, PeerPort, true) { // unready processes publish, too
			peers = append(peers, at.String())
		}
		a.channel.SetPeers(peers...)
	}
	c.writer.Observe(ch.View, ch.Objects)
}

func changesListeners(d translator.Delta) bool {
	return slices.ContainsFunc(d.Upserts, func(r *resource.Resource) bool { return r.Type == resource.Listener }) ||
		slices.ContainsFunc(d.Removes, func(r resource.Ref) bool { return r.Type == resource.Listener })
}

func replicas(r store.Reader, service, port string, unready bool) (out []netip.AddrPort) {
	for _, slice := range store.EndpointSlices.By(r, store.ByService, service) {
		for _, p := range slice.Ports {
			if p.Name == nil || *p.Name != port || p.Port == nil {
				continue
			}
			for _, e := range slice.Endpoints {
				if !unready && e.Conditions.Ready != nil && !*e.Conditions.Ready {
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
