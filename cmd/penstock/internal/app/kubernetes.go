package app

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/penstock-project/penstock/cmd/penstock/internal/peers"
	"github.com/penstock-project/penstock/discovery/kube"
	"github.com/penstock-project/penstock/discovery/kube/leader"
	"github.com/penstock-project/penstock/discovery/status"
	"github.com/penstock-project/penstock/discovery/status/kubestatus"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/translator"
	"github.com/penstock-project/penstock/xds/fleet/render"
	"github.com/penstock-project/penstock/xds/resource"
)

// Kubernetes says how a App finds itself in a cluster, which it reads instead of files.
type Kubernetes struct {
	// REST is how the API server is reached.
	REST *rest.Config
	// Namespace holds the Lease by which one of several processes comes to write statuses; Identity is this one's name.
	Namespace, Identity string
	// Service is the Service in front of all penstock processes, "namespace/name": Envoys ask pickers at its endpoints' port
	// PickerPort, and the processes find each other at PeerPort. Empty: this process is the only one, and its picker is at
	// Config.PickerAddresses.
	Service string
	// Fleet has the proxies of Gateways run here, and ADS served over TLS; nil: somebody else runs them all. It needs Service
	// and Config.Peers.Listener.
	Fleet *Fleet
	// Features are what GatewayClasses say that we support.
	Features []gatewayv1.FeatureName
}

// Names of ports of Kubernetes.Service.
const (
	PickerPort = "picker"
	PeerPort   = "peers"
)

const (
	// leaseName is the Lease's.
	leaseName = "penstock"
	// fetchPatience is how long a change waits for objects that it refers to and nobody did before. They come in the same
	// change then: a listener whose certificate is still to be read must not close. The first one waits on.
	fetchPatience = 3 * time.Second
	// fetchRounds bounds how often what was fetched refers to something else that must be fetched.
	fetchRounds = 5
)

// cluster is the half of a App that only Kubernetes has.
type cluster struct {
	cfg        Kubernetes
	source     *kube.Source
	writer     *kubestatus.Writer
	leader     *leader.Elector
	programmed *peers.Programmed
	fleets     *fleets // nil if somebody else runs the proxies
}

// newCluster makes the source of a cluster's objects, in place of files.
func (p *App) newCluster() (err error) {
	k := *p.cfg.Kubernetes
	c := &cluster{cfg: k}
	c.source, err = kube.New(kube.Config{REST: k.REST, Store: p.store, Log: p.log, Report: func(reports []report.Report) { p.board.Replace(status.Cluster, reports...) }})
	if err != nil {
		return err
	}
	if c.leader, err = leader.New(leader.Config{REST: k.REST, Namespace: k.Namespace, Name: leaseName, Identity: k.Identity, Log: p.log}); err != nil {
		return err
	}
	if k.Fleet != nil {
		if c.fleets, err = p.newFleets(*k.Fleet); err != nil {
			return err
		}
	}
	p.cluster = c
	return nil
}

// joinCluster makes what writes back, when all that it asks is there.
func (p *App) joinCluster() (err error) {
	c := p.cluster
	c.programmed = peers.NewProgrammed(peers.ProgrammedConfig{
		Channel: p.channel, Proxies: p.proxies, Acks: p.xds, Resources: p.listeners, Version: p.cache.Current,
		Changed: func(gateway string) { c.writer.DeliveryChanged(gateway) }, Log: p.log,
	})
	c.writer, err = kubestatus.New(kubestatus.Config{
		Source: c.source, Store: p.store, Board: p.board, Delivery: c.programmed,
		Controller: Controller, Features: c.cfg.Features, Log: p.log,
	})
	return err
}

// silence is how long nothing need be heard from the API server by a process that runs: it asks every two seconds.
const silence = 10 * time.Second

// lagging says whether the world may have moved on without us: then nothing is taken away from proxies.
func (c *cluster) lagging() bool {
	return c.source.Lagging() || time.Since(c.leader.LastContact()) > silence
}

// runCluster starts what only Kubernetes has.
func (p *App) runCluster(ctx context.Context, group *errgroup.Group) {
	c := p.cluster
	group.Go(func() error { return quiet(ctx, c.source.Run(ctx)) })
	group.Go(func() error { return quiet(ctx, c.programmed.Run(ctx)) })
	group.Go(func() error {
		if err := c.source.Synced(ctx); err != nil {
			return quiet(ctx, err)
		}
		lead := c.writer.Lead
		if c.fleets != nil {
			lead = func(ctx context.Context) error { return together(ctx, c.writer.Lead, c.fleets.lead) }
		}
		return quiet(ctx, c.leader.Run(ctx, lead))
	})
	if c.fleets != nil {
		group.Go(func() error { return quiet(ctx, c.fleets.authority.Run(ctx)) })
	}
}

// translatorConfig is what is different for a cluster.
func (k *Kubernetes) translatorConfig(cfg *translator.Config) {
	cfg.AnyClass, cfg.BehindService, cfg.Slices, cfg.OnDemand = false, true, true, kube.OnDemand()
	cfg.PickerService, cfg.PickerPort = k.Service, PickerPort
	if k.Fleet != nil {
		cfg.PickerName, cfg.ReservedPort = k.Fleet.Names[0], render.ReadyPort
	}
}

// fetch has the source read what an update has begun to read, and goes on with it, until nothing is missing. changes
// becomes all that was translated. A change waits for a while only; the first translation, after which proxies are answered,
// as long as it takes: what is missing would be taken from those that have it.
func (p *App) fetch(ctx context.Context, sub *store.Subscription, out translator.Output, view *store.View, changes []store.Change) (translator.Output, *store.View, []store.Change) {
	if p.progress.has() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, fetchPatience)
		defer cancel()
	}
	for range fetchRounds {
		settled := len(out.Wanted)+len(out.Unwanted) == 0
		if settled && p.progress.has() { // the first time the source waits to hear so
			break
		}
		wanted, unwanted := demands(out.Wanted), demands(out.Unwanted)
		out.Wanted, out.Unwanted = nil, nil
		p.want(ctx, wanted, unwanted)
		revisions, now := sub.Pending()
		if len(revisions) == 0 && settled {
			break
		}
		if len(revisions) == 0 {
			continue
		}
		var more []store.Change
		for _, r := range revisions {
			more = append(more, r.Changes...)
		}
		later := p.updateTo(now, more)
		wanted2, unwanted2 := later.Wanted, later.Unwanted
		out = out.Then(later)
		out.Wanted, out.Unwanted = wanted2, unwanted2
		view, changes = now, append(changes, more...)
	}
	return out, view, changes
}

// want has the source read what translation begins to read. What the API server refuses to show does not come by waiting.
func (p *App) want(ctx context.Context, wanted, unwanted []kube.Demand) {
	for {
		try, cancel := context.WithTimeout(ctx, fetchPatience)
		err := p.cluster.source.Want(try, wanted, unwanted)
		cancel()
		switch {
		case err == nil || ctx.Err() == context.Canceled:
			return
		case ctx.Err() != nil || p.cluster.source.Forbidden():
			p.log.Warn("translating without objects that cannot be read now", "error", err)
			return
		}
		p.log.Warn("serving nobody before everything was read once", "error", err)
	}
}

func demands[K ~struct{ Table, Index, Key string }](keys []K) []kube.Demand {
	out := make([]kube.Demand, len(keys))
	for i, k := range keys {
		out[i] = kube.Demand(k)
	}
	return out
}

// told is called when a change has been translated and committed: what is said of it is on the board.
func (p *App) told(view *store.View, changes []store.Change, out translator.Output) {
	c := p.cluster
	own := false
	gateways := map[string]struct{}{}
	for _, ch := range changes {
		switch ch.Table {
		case store.Gateways.Kind():
			gateways[ch.ID] = struct{}{}
		case store.EndpointSlices.Kind():
			own = own || c.cfg.Service != "" && slices.Contains(ch.Keys, store.IndexKey{Index: store.ByService, Key: c.cfg.Service})
		}
	}
	for _, d := range out.Deltas {
		isListener := func(r resource.Ref) bool { return r.Type == resource.Listener }
		if slices.ContainsFunc(d.Upserts, func(r *resource.Resource) bool { return isListener(r.Ref) }) || slices.ContainsFunc(d.Removes, isListener) {
			gateways[d.Gateway] = struct{}{}
		}
	}
	for key := range gateways {
		if gw, ok := store.Gateways.Get(view, key); ok {
			c.programmed.Expect(key, gw.Generation)
		} else {
			c.programmed.Drop(key)
		}
	}
	if c.fleets != nil && concerns(changes, out) {
		p.tellFleets()
	}
	if own {
		p.channel.SetPeers(peersIn(view, c.cfg.Service)...)
	}
	c.writer.Observe(view, changes)
}

// peersIn are the addresses of all processes behind our Service. One that is not ready may know something already.
func peersIn(view *store.View, service string) (out []string) {
	for _, slice := range store.EndpointSlices.By(view, store.ByService, service) {
		port := int32(0)
		for _, p := range slice.Ports {
			if p.Name != nil && *p.Name == PeerPort && p.Port != nil {
				port = *p.Port
			}
		}
		for _, e := range slice.Endpoints {
			for _, a := range e.Addresses {
				if _, err := netip.ParseAddr(a); err == nil && port != 0 {
					out = append(out, net.JoinHostPort(a, strconv.Itoa(int(port))))
				}
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// listeners are what the proxies of a gateway must have for it to be programmed: its listeners and their route
// configurations.
func (p *App) listeners(gateway string) []resource.Ref {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.translator.Listeners(gateway)
}
