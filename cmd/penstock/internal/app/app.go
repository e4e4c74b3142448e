package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"github.com/penstock-project/penstock/cmd/penstock/internal/delivery"
	"github.com/penstock-project/penstock/cmd/penstock/internal/expiry"
	"github.com/penstock-project/penstock/cmd/penstock/internal/gates"
	"github.com/penstock-project/penstock/cmd/penstock/internal/peers"
	"github.com/penstock-project/penstock/cmd/penstock/internal/pipeline"
	"github.com/penstock-project/penstock/discovery/engine/processes"
	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/discovery/status"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/multicluster/channel"
	"github.com/penstock-project/penstock/multicluster/learned"
	"github.com/penstock-project/penstock/multicluster/set"
	"github.com/penstock-project/penstock/multicluster/traffic/attempts"
	"github.com/penstock-project/penstock/multicluster/traffic/failback"
	"github.com/penstock-project/penstock/multicluster/traffic/load"
	"github.com/penstock-project/penstock/multicluster/traffic/parents"
	"github.com/penstock-project/penstock/picker"
	"github.com/penstock-project/penstock/picker/accesslog"
	"github.com/penstock-project/penstock/picker/authz"
	"github.com/penstock-project/penstock/picker/probe"
	"github.com/penstock-project/penstock/picker/schedule"
	"github.com/penstock-project/penstock/picker/usage"
	"github.com/penstock-project/penstock/translator/model"
	"github.com/penstock-project/penstock/xds/admission"
	"github.com/penstock-project/penstock/xds/admission/ports"
	"github.com/penstock-project/penstock/xds/cache"
	"github.com/penstock-project/penstock/xds/identity"
	"github.com/penstock-project/penstock/xds/publish"
	"github.com/penstock-project/penstock/xds/server"
)

// App is the control plane of one process, with the endpoint picker.
type App struct {
	core
	cfg         Config
	security    security
	credentials *holder
	registry    *prometheus.Registry
	changes     prometheus.Histogram
	ports       portOwners
	budget      *admission.Budget
	stopping    *stopping
	run         func(context.Context) error

	channel *channel.Channel
	picker  *picker.Picker
	prober  *probe.Prober
	expiry  *expiry.Keeper
	envoyParts
	peerParts
	accessParts
	clusterParts

	standAlone *StandAlone
	written    status.Written                       // nil: objects come from files
	engines    atomic.Pointer[processes.Supervisor] // nil: this process runs no model servers
	onServers  func(string)
}

// envoyParts deliver changes to Envoys.
type envoyParts struct {
	cache    *cache.Cache
	xds      *server.Server
	progress *delivery.Progress
	linger   *delivery.Linger
	holds    *delivery.Holds
	stops    *delivery.Stops
	pools    *delivery.Pools
}

// peerParts exchange facts with the other processes of this cluster.
type peerParts struct {
	proxies  *peers.Proxies
	relays   *peers.Relays
	entries  *peers.Entries
	loads    *peers.Loads
	shared   *peers.Picks
	pages    *peers.Pages
	sessions *peers.Sessions
	asked    *peers.Asked
}

// accessParts decide who may call, and count usage.
type accessParts struct {
	access     *delivery.Access
	gates      *gates.Keeper
	usage      *usage.Keeper
	unanswered *authz.Failures
	open       *authz.Open
}

// clusterParts follow requests to other clusters.
type clusterParts struct {
	set           *set.Set
	clusterLoads  *load.Loads
	failback      *failback.Keeper
	learner       *learned.Keeper
	attempts      *attempts.Counter
	parentHosts   *parents.Counter
	remotePickers *remotePickers
}

type wiring struct {
	security   security
	lagging    func() bool // reports that objects may be outdated, so nothing may be removed; nil: never
	proxies    func(gateway string)
	standAlone *StandAlone
	written    status.Written // nil: objects come from files
	// HOST:PORT of the API server
	apiServers []string
	// apiEndpoints returns further addresses of the API server; may be nil.
	apiEndpoints func(context.Context) ([]netip.AddrPort, error)
}

func newApp(cfg Config, c core, w wiring) (a *App, err error) {
	a = &App{core: c, cfg: cfg, security: w.security, standAlone: w.standAlone, written: w.written,
		registry: prometheus.NewRegistry(),
		ports:    everyPort{}, budget: admission.NewBudget(budget),
		stopping: newStopping(cmp.Or(cfg.StopTimeout, pickDrainTime))}
	if _, err := c.store.Apply(cfg.Processor.object()); err != nil {
		return nil, err
	}
	if cfg.Credentials != nil {
		if a.credentials, err = newHolder(*cfg.Credentials, c.store, c.log); err != nil {
			return nil, err
		}
		a.security = a.credentials.security(w.security)
	}
	if a.changes, err = newMetrics(a.registry, a.board); err != nil {
		return nil, err
	}
	if err := a.loadClusters(); err != nil {
		return nil, err
	}
	a.progress, a.cache = delivery.NewProgress(), cache.New(cache.Config{})
	a.linger = delivery.NewLinger(a.cache, delivery.LingerTimeout, a.log)
	a.channel = channel.New(channel.Config{Peers: cfg.Peers.Addresses, Credentials: a.security.dial, Now: clock(),
		Log: a.log, OnPanic: a.panics.of(partStream)})
	a.proxies = peers.NewProxies(a.channel, w.proxies)
	a.remotePickers = newRemotePickers(a.board, a.store, a.log)
	a.relays = peers.NewRelays(a.board, a.channel, a.pickerDown)
	a.xds, err = server.New(server.Config{
		Cache: a.cache, Authenticate: a.security.authenticate, Reports: peers.NewNACKs(a.board, a.channel), Log: a.log,
		Metrics: a.registry, Tracing: cfg.Tracer, Count: a.proxies.Count, OnPanic: a.panics.of(partStream),
		Now: elapsed(),
		Publish: publish.Config{Drain: cfg.DrainTime, Linger: delivery.LingerTimeout, Lagging: w.lagging,
			Called: func(cluster string) bool {
				id, _ := model.ParseClusterID(cluster)
				return id.External()
			}},
	})
	if err != nil {
		return nil, err
	}
	a.holds = delivery.NewHolds(delivery.HoldsConfig{Cache: a.linger, Names: peers.NewNames(a.channel)})
	envoys := delivery.NewEnvoys(delivery.EnvoysConfig{
		Streams: a.xds, Elsewhere: a.proxies, Cache: a.cache, Linger: a.linger, Holds: a.holds, Progress: a.progress,
		Store:    a.store,
		Clusters: a.translation.PoolClusters, NoPeers: a.channel.Isolated,
	})
	a.learner = learned.New(learned.Config{Store: a.store, Delivery: envoys, Object: delivery.LearnedObject,
		Peers: a.channel.Topic(learned.Topic)})
	a.stops = delivery.NewStops(a.channel.Isolated, a.log)
	a.failback = failback.New(a.store, a.log)
	a.expiry = expiry.New(a.board, a.registry)
	a.onServers = cfg.OnServers
	a.access = delivery.NewAccess(delivery.AccessConfig{Cache: a.cache, Drain: cfg.DrainTime, Lagging: w.lagging})
	a.gates = gates.New(gates.Config{Store: a.store, Board: a.board, Now: clock(), Drain: cfg.DrainTime,
		Fetch: cfg.fetch(w)})
	a.gate = &gate{a.gates.Table(), a.gates.Tokens()}
	a.usage = newUsage(cfg, a.board, a.store)
	a.unanswered = authz.NewFailures(a.log, clock())
	a.open = authz.NewOpen(authz.OpenConfig{Table: a.gates.Table(), Gates: a.gates.Gates, Failures: a.unanswered,
		Now: clock()})
	if err := errors.Join(a.share(), register(a.registry, a.usage, a.unanswered, a.open)); err != nil {
		return nil, err
	}
	if err := a.pick(envoys); err != nil {
		return nil, err
	}
	a.prober, err = probe.New(probe.Config{OnAnswer: a.storeDialect, Log: a.log})
	return a, err
}

func (a *App) loadClusters() error {
	cfg := a.cfg
	unrecorded := prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "penstock_picker_unrecorded_requests_total",
		Help: "Requests that --record has not written, because the disk is full or too slow."},
		func() float64 {
			if cfg.Recording == nil {
				return 0
			}
			return float64(cfg.Recording.Dropped())
		})
	unpublished := prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "penstock_picker_unpublished_picks_total",
		Help: "Picks that were not published to the pickers of other processes, because there were too many: their " +
			"prompts count as cached in this process alone."},
		func() float64 { return float64(a.shared.Missed()) })
	a.clusterLoads = load.New(load.Config{
		Waiting:    func(pool objectid.Pool) (schedule.Wait, int, bool) { return a.picker.Waiting(pool) },
		Federation: a.federation, Cluster: a.cluster, Log: a.log,
		OnPage: func(imported objectid.Pool, member, why string) { a.remotePickers.read(imported, member, why) },
	})
	return register(a.registry, a.panics.count, unpublished, unrecorded, a.clusterLoads)
}

func (a *App) share() error {
	a.entries = peers.NewEntries(a.channel, func(e accesslog.Entry) { a.picker.LogOwn(e) })
	a.loads = peers.NewLoads(a.channel)
	a.shared = peers.NewPicks(a.channel, func() peers.Caches { return a.picker })
	a.pages = peers.NewPages(a.channel, func() peers.PageReader { return a.picker.Loads() })
	a.sessions = peers.NewSessions(a.channel, func() peers.SessionKeeper { return a.picker })
	a.hosts.OnChange(peers.NewHosts(a.channel, func() peers.HostLearner { return a.hosts }).Changed)
	a.asked = peers.NewAsked(a.channel, a.records)
	allowed := func(gateway string, pool objectid.Target) bool { ok, _ := a.access.Allowed(gateway, pool); return ok }
	a.parentHosts = parents.New(parents.Config{
		Objects: func() store.Reader { return a.store.View() }, Reports: peers.NewAnswers(a.board, a.channel),
		Allowed: allowed,
	})
	a.attempts = attempts.New(attempts.Config{Allowed: allowed, Exists: a.hasExportingCluster})
	return register(a.registry, a.attempts)
}

func (a *App) pick(envoys *delivery.Envoys) (err error) {
	cfg := a.cfg
	var waiter delivery.EndpointWaiter = envoys
	var protocol picker.Protocol
	if a.standAlone != nil {
		waiter, protocol = noEnvoys{}, a.standAlone.Protocol
	}
	events := cfg.KVEvents
	if events != nil {
		events = ports.Events.Open(events)
	}
	around := around{a}
	var onDemand picker.OnDemand
	if a.deployments != nil {
		onDemand = a.deployments
	}
	a.picker, err = picker.New(picker.Config{
		Protocol: protocol, Log: a.log, Registerer: a.registry, Tracer: cfg.Tracer,
		Learner: a.learner, Peers: a.loads, Observer: a.clusterLoads, Chooser: a.clusterLoads, Access: a.access,
		Stops: a.stops, OnDemand: onDemand,
		Reports: around, Sharing: around, Callers: around, Troubles: around, Addresses: &cfg.Addresses,
		Permits: a.gates.Table().Permits, Believes: a.believes,
		Watches: watches{a.open, a.security.keyed},
		Keyed:   a.security.keyed, HeldBodies: cfg.HeldBodies, Recording: cfg.Recording, KVEvents: events,
	})
	if err != nil {
		return err
	}
	if a.deployments != nil {
		a.deployments.Follow(a.picker)
	}
	a.loads.Publish(a.picker)
	a.pools = delivery.NewPools(delivery.PoolsConfig{
		Picker: a.picker, Envoys: waiter, Holds: a.holds, DefaultPool: cfg.DefaultPool, Keep: cfg.DrainTime, Log: a.log,
		OnDemand: func(pool objectid.Target) bool {
			if onDemand == nil {
				return false
			}
			_, ok := onDemand.Demand(pool)
			return ok
		},
	})
	return nil
}

func (a *App) pipeline(cfg pipeline.Config, own ...delivery.Part) *pipeline.Pipeline {
	cfg.Store, cfg.Translation, cfg.Cache, cfg.Log = a.store, a.translation, a.cache, a.log
	cfg.Names = a.wantNames
	cfg.Observe, cfg.Tracer = a.changes.Observe, a.cfg.Tracer.Tracer("github.com/penstock-project/penstock")
	relays := delivery.On(delivery.Shrink, func(_ context.Context, c *delivery.Change) {
		a.relays.Follow(c.Output.Pools, c.Output.PoolsGone)
	})
	pickers := delivery.On(delivery.Shrink, a.followPickers)
	failback := delivery.On(delivery.Observe, func(_ context.Context, c *delivery.Change) {
		a.failback.Follow(c.Output.Ordered)
	})
	cfg.Delivery = delivery.New(append(own, delivery.Reports{Board: a.board, Log: a.log,
		OnPanic: a.panics.of(partTranslation)}, relays, a.access, a.gates, a.pools, pickers,
		delivery.Probes{Prober: a.prober}, a.holds, failback, a.expiry, a.progress)...)
	return pipeline.New(cfg)
}

// Run reads, translates and serves until ctx ends. While the API server does not answer, Run waits.
func (a *App) Run(ctx context.Context) error {
	defer KeepWithin(a.cfg.Memory)()
	return a.run(ctx)
}

func (a *App) serve(ctx context.Context, group *errgroup.Group, line *pipeline.Pipeline) {
	rested := startTight()
	start := func(run func(context.Context) error) { group.Go(func() error { return quiet(ctx, run(ctx)) }) }
	for _, run := range []func(context.Context) error{
		a.hosts.Run, a.stops.Run, line.Run, a.linger.Run, a.holds.Run, a.xds.Run, a.channel.Run, a.prober.Run,
		a.picker.Run, a.learner.Run, a.failback.Run, a.expiry.Run, a.entries.Run, a.loads.Run, a.shared.Run,
		a.gates.Run, a.open.Run, a.pages.Run, a.sessions.Run, a.pools.Run, a.clusterLoads.Run, a.clusterLoads.RunPages,
		a.parentHosts.Run, a.usage.Run,
		func(ctx context.Context) error { return reclaim(ctx, rested) },
		func(ctx context.Context) error { return compareRates(ctx, a.board, a.picker.Rates) },
	} {
		start(run)
	}
	if a.credentials != nil {
		start(a.credentials.run)
	}
	apart, streams := a.cfg.Peers.Listener != nil,
		append(a.panics.calls(partStream), grpc.ChainStreamInterceptor(countMessages))
	serve := func(port ports.Port, l net.Listener, authenticates bool, options []grpc.ServerOption,
		register func(grpc.ServiceRegistrar)) {
		group.Go(func() error {
			return serveGRPC(ctx, a.admit(port, l, authenticates), nil,
				slices.Concat(server.Options(), streams, options), register)
		})
	}
	if a.cfg.XDS != nil {
		serve(ports.ADS, a.cfg.XDS, a.security.authenticate != nil, a.security.ads, func(r grpc.ServiceRegistrar) {
			a.xds.Register(r) // only ADS, because proxies are not peers
		})
	}
	if a.cfg.Local != nil {
		serve(ports.ADS, a.cfg.Local, false, nil, func(r grpc.ServiceRegistrar) {
			a.xds.Register(r)
			if !apart {
				a.channel.Register(r)
			}
		})
	}
	if apart {
		serve(ports.Peers, a.cfg.Peers.Listener, a.security.peers != nil, a.security.peers, a.channel.Register)
	}
	group.Go(func() error {
		keys, credentials := a.pickOptions()
		options := slices.Concat(picker.ServerOptions(uint32(4*runtime.NumCPU()), keys), a.panics.calls(partPick),
			credentials)
		l := keyed(picker.Listener(a.cfg.Picker), a.security.keyed && !a.security.openPicks, a.log)
		a.awaitBegun(ctx)
		return a.servePicks(ctx, l, options, func(r grpc.ServiceRegistrar) {
			a.picker.Register(r)
			authz.New(authz.Config{Table: a.gates.Table(), Gateway: identity.Gateway, Gates: a.gates.Gates,
				Tokens: a.gates.Tokens(), Failures: a.unanswered, Now: clock()}).Register(r)
		})
	})
	for _, o := range a.cfg.Offers {
		if o.Picker != nil {
			group.Go(func() error {
				a.awaitBegun(ctx)
				options := slices.Concat(picker.ServerOptions(0, a.security.keys), a.panics.calls(partPick),
					a.security.pickCredentials())
				return a.servePicks(ctx, keyed(picker.Listener(o.Picker), false, a.log), options,
					func(r grpc.ServiceRegistrar) {
						a.picker.RegisterFor(o.Pool.String(), r)
					})
			})
		}
	}
}

// If this program has replaced another one, awaitBegun returns after the first delivery. Calls that
// the former program left unanswered wait until then.
func (a *App) awaitBegun(ctx context.Context) {
	if a.cfg.Replaces {
		_ = a.progress.Wait(ctx, 1) // fails only when ctx ends
	}
}

const syncTimeout = 500 * time.Millisecond

// syncPeers waits for peers' publications, but at most syncTimeout, because a peer may be frozen.
func (a *App) syncPeers(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, syncTimeout)
	defer cancel()
	if err := a.channel.Synced(ctx); err != nil && ctx.Err() == context.DeadlineExceeded {
		a.log.Warn("serving without the publications of a peer that does not answer", "error", err)
	}
}

const probeTimeout = time.Second

// probeAnswers waits at most probeTimeout for probes of external pickers. Before, filters are
// configured for a protocol that the picker may not support.
func (a *App) probeAnswers(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	if err := a.prober.WaitAnswered(ctx); err != nil {
		a.log.Debug("serving before all external pickers are probed", "error", err)
	}
}

// A starting process waits for the addresses of host names. Otherwise it would remove endpoints.
// The wait ends after settleTime, or if no answer arrives for silentTime.
const (
	settleTime = 250 * time.Millisecond
	silentTime = 25 * time.Millisecond
)

func (a *App) settleNames(ctx context.Context) {
	if err := a.hosts.Settle(ctx, silentTime, settleTime); err != nil && ctx.Err() == nil {
		a.log.Error("addresses of unused host names cannot be removed", "error", err)
	}
}

func (a *App) wantNames(names, gone []string) {
	if err := a.hosts.Want(names, gone); err != nil {
		a.log.Error("addresses of host names cannot be stored", "error", err)
	}
}

func (a *App) storeDialect(name string, answer probe.Answer) error {
	op := store.Dialects.Delete(name)
	d := store.Dialect{Acknowledges: answer.Dialect == probe.Acknowledges, Health: answer.Health, Lost: answer.Lost,
		Frozen: answer.Frozen}
	if d.Acknowledges || d.Health || d.Lost || d.Frozen {
		d.Name = name
		op = store.Dialects.Put(&d)
	}
	if _, err := a.store.Apply(op); err != nil {
		return fmt.Errorf("how %s answers: %w", name, err)
	}
	if id, ok := model.ParseClusterID(name); ok && id.External() {
		if id.Kind == model.ImportPickerKind {
			a.pickerDown(objectid.Target{Pool: objectid.Pool{Namespace: id.Namespace, Name: id.Name},
				Member: id.Member}, "probe", answer.Down)
		}
		a.remotePickers.answered(id, answer)
	}
	return nil
}

// pickerDown reports why the picker of an exporting cluster cannot be reached; "": it can be
// reached again.
func (a *App) pickerDown(id objectid.Target, source, why string) {
	if a.set != nil {
		a.set.PickerDown(id.Pool, id.Member, source, why)
	}
}

func (a *App) federation() load.Federation {
	if a.set != nil {
		if f := a.set.Federation(); f != nil {
			return f
		}
	}
	return nil
}

func (a *App) cluster() string {
	if a.set == nil {
		return ""
	}
	return a.set.Cluster()
}

func quiet(ctx context.Context, err error) error {
	if ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)) {
		return nil
	}
	return err
}

const pickDrainTime = time.Second

// serveGRPC serves until ctx ends, and then completes calls in flight until drained returns. If
// drained is nil, the calls end at once.
func serveGRPC(ctx context.Context, l net.Listener, drained func(), options []grpc.ServerOption,
	register func(grpc.ServiceRegistrar)) error {
	s := grpc.NewServer(options...)
	register(s)
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(ended)
		if drained != nil {
			go s.GracefulStop()
			drained()
		}
		s.Stop()
	})
	if err := s.Serve(l); err != nil && ctx.Err() == nil {
		stop()
		return fmt.Errorf("serve gRPC on %s: %w", l.Addr(), err)
	}
	if !stop() { // Serve returns as soon as the listener is closed
		<-ended
	}
	return nil
}

func serveHandler(ctx context.Context, l net.Listener, h http.Handler) error {
	s := &http.Server{Handler: h, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: 2 * time.Minute,
		MaxHeaderBytes: 64 << 10}
	stop := context.AfterFunc(ctx, func() { _ = s.Close() })
	defer stop()
	if err := s.Serve(l); err != nil && ctx.Err() == nil {
		return fmt.Errorf("serve HTTP on %s: %w", l.Addr(), err)
	}
	return nil
}
