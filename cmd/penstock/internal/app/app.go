package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"github.com/penstock-project/penstock/cmd/penstock/internal/peers"
	"github.com/penstock-project/penstock/discovery/file"
	"github.com/penstock-project/penstock/discovery/hostname"
	"github.com/penstock-project/penstock/discovery/status"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/multicluster/channel"
	"github.com/penstock-project/penstock/multicluster/learned"
	"github.com/penstock-project/penstock/picker"
	"github.com/penstock-project/penstock/picker/accesslog"
	"github.com/penstock-project/penstock/picker/probe"
	"github.com/penstock-project/penstock/translator"
	"github.com/penstock-project/penstock/translator/envoy"
	"github.com/penstock-project/penstock/translator/model"
	"github.com/penstock-project/penstock/xds/cache"
	"github.com/penstock-project/penstock/xds/publish"
	"github.com/penstock-project/penstock/xds/server"
)

// lingering is how long clusters outlive the routes to them: longer than Envoy waits for an ordinary pick (2 s).
const lingering = 5 * time.Second

// Controller is the controllerName of our GatewayClasses and of the parents that we write.
const Controller = "penstock.dev/gateway-controller"

// Config is what a App needs.
type Config struct {
	// Paths are the folders and files with objects. At least one, unless Kubernetes is given.
	Paths []string
	// Kubernetes is the cluster whose objects are read instead; nil: none.
	Kubernetes *Kubernetes
	// StateDir keeps last good objects, the status file and the socket for other penstock commands.
	StateDir string
	// XDS and Picker are listeners for Envoys; the App closes them. Picker may be nil: no picker is hosted.
	XDS, Picker net.Listener
	// Peers are the other processes that serve the same Envoys.
	Peers Peers
	// PickerAddresses are where Envoys find our picker; the Picker listener's own address if empty.
	PickerAddresses []netip.AddrPort
	// HTTP serves metrics and health to everyone, and what Admin does if only this machine reaches it. Admin also serves what objects
	// say and what comes of them, to whoever reaches it. Nil: none, beside the socket in StateDir, which does as Admin.
	HTTP, Admin net.Listener
	// DefaultPool is what a gateway of somebody else, which names no pool, is picked from: "namespace/name". Empty: the
	// only pool, if there is one.
	DefaultPool string
	// AccessLog is where Envoys log requests; "" for nowhere.
	AccessLog string
	// AnyController takes every Gateway, whatever its class says: for looking at other people's files.
	AnyController bool
	// OnePort lets no two Gateways have the same port: their Envoys run on one machine.
	OnePort bool
	// DrainTime is how long streams of a filter chain that is gone may go on.
	DrainTime time.Duration
	// Memory is how many bytes the process may have, of its container for instance; Go keeps below them with room to spare. 0: as many as
	// it takes.
	Memory int64
	// Tracer takes spans; Collector and Sampling are for Envoys' own.
	Tracer    trace.TracerProvider
	Collector netip.AddrPort
	Sampling  float64
	Log       *slog.Logger
}

// App is the control plane of one process.
type App struct {
	cfg      Config
	log      *slog.Logger
	tracer   trace.Tracer
	registry *prometheus.Registry
	metrics  *changeMetrics
	store    *store.Store
	files    *file.Reader // nil on Kubernetes
	cluster  *cluster     // nil elsewhere
	hosts    *hostname.Resolver
	board    *status.Board
	cache    *cache.Cache
	departed *departed
	xds      *server.Server
	picker   *picker.Picker
	learner  *learned.Keeper
	dialects *probe.Prober
	channel  *channel.Channel
	proxies  *peers.Proxies
	names    *peers.Names
	pools    *poolStage
	relays   *peers.Relays
	ends     *peers.Completions // nil if no picker is hosted
	ports    *portClaims

	mu         sync.Mutex // guards translator, which explanations read while changes write
	translator *translator.Translator
	progress   progress
	onGateways func(gateways []string)
}

// New puts the parts together. It starts nothing.
func New(cfg Config) (*App, error) {
	p := &App{cfg: cfg, log: cfg.Log, registry: prometheus.NewRegistry(), tracer: cfg.Tracer.Tracer("github.com/penstock-project/penstock")}
	p.progress.changed = make(chan struct{})
	if err := p.discovery(); err != nil {
		return nil, err
	}
	p.cache = cache.New(cache.Config{})
	p.departed = newDeparted(p.cache, lingering, p.log)
	p.channel = channel.New(channel.Config{Peers: cfg.Peers.Addresses, Credentials: p.dialPeers(), Log: p.log})
	p.proxies = peers.NewProxies(p.channel, func(gateway string) {
		if p.cluster != nil {
			p.cluster.writer.DeliveryChanged(gateway)
		}
	})
	p.names = peers.NewNames(p.channel)
	publishing := publish.Config{Drain: cfg.DrainTime, Linger: lingering, Called: func(cluster string) bool {
		id, _ := model.ParseClusterID(cluster)
		return id.External()
	}}
	if p.cluster != nil {
		publishing.Lagging = p.cluster.lagging
	}
	var err error
	var authorize server.Authorize // nil: what proxies say of themselves is believed
	if p.cluster != nil && p.cluster.fleets != nil {
		authorize = p.cluster.fleets.guard.Authorize
	}
	p.xds, err = server.New(server.Config{
		Cache: p.cache, Authorize: authorize, Reports: peers.NewNACKs(p.board, p.channel), Log: p.log, Metrics: p.registry, Tracing: cfg.Tracer, Count: p.proxies.Count,
		Publish: publishing,
	})
	if err != nil {
		return nil, err
	}
	p.relays = peers.NewRelays(p.board, p.channel)
	addresses := cfg.PickerAddresses
	if cfg.Picker != nil {
		p.learner = learned.New(learned.Config{Store: p.store, Delivery: p, Peers: p.channel.Topic(learned.Topic)})
		p.ends = peers.NewCompletions(p.channel, func(e accesslog.Entry) { p.picker.ReleaseOwn(e) })
		p.picker, err = picker.New(picker.Config{Log: p.log, Registerer: p.registry, Tracer: cfg.Tracer, Learner: p.learner, OnRelayFailure: p.relays.Trouble, Forward: p.ends.Add})
		if err != nil {
			return nil, err
		}
		p.pools = newPoolStage(poolStageConfig{Picker: p.picker, Proxies: p, DefaultPool: cfg.DefaultPool, Keep: cfg.DrainTime, Log: p.log})
		if len(addresses) == 0 {
			addresses = []netip.AddrPort{netip.MustParseAddrPort(cfg.Picker.Addr().String())}
		}
	}
	if p.dialects, err = probe.New(probe.Config{OnAnswer: p.keepDialect, Log: p.log}); err != nil {
		return nil, err
	}
	if cfg.OnePort {
		p.ports = newPortClaims()
	}
	if p.cluster != nil {
		if err := p.joinCluster(); err != nil {
			return nil, err
		}
	}
	if p.metrics, err = newChangeMetrics(p.registry, p.board, p.cluster); err != nil {
		return nil, err
	}
	p.translator = translator.New(TranslatorConfig(cfg, addresses))
	return p, nil
}

// TranslatorConfig is how objects are translated for a Config; pickers are where Envoys find our picker.
func TranslatorConfig(cfg Config, pickers []netip.AddrPort) translator.Config {
	out := translator.Config{Controller: Controller, AnyClass: true, AnyController: cfg.AnyController, Pickers: pickers, Envoy: envoy.Config{AccessLog: cfg.AccessLog, OwnPorts: cfg.OnePort}}
	if cfg.Collector.IsValid() {
		out.Collector = cfg.Collector
		out.Envoy.Tracing = &envoy.Tracing{SamplingPercent: cfg.Sampling}
	}
	if cfg.Kubernetes != nil {
		cfg.Kubernetes.translatorConfig(&out)
	}
	return out
}

func (p *App) discovery() (err error) {
	p.store = store.New()
	if p.hosts, err = hostname.New(hostname.Config{Store: p.store, StateDir: p.cfg.StateDir, Log: p.log}); err != nil {
		return err
	}
	if p.cfg.Kubernetes != nil {
		p.board = status.NewBoard(nil)
		return p.newCluster()
	}
	p.board = status.NewBoard(func(owner report.Ref, field string) string { return p.files.Locate(owner, field) })
	p.files, err = file.New(file.Config{
		Paths: p.cfg.Paths, Store: p.store, StateDir: p.cfg.StateDir, Log: p.log,
		Report: func(reports []report.Report) { p.board.Replace(status.Files, reports...) },
	})
	return err
}

// Board is where everything that is said about objects can be read.
func (p *App) Board() *status.Board { return p.board }

// OnGateways has f called with the names of all Gateways that are ours, each time that they have changed, from the
// goroutine that translates. Set it before Run.
func (p *App) OnGateways(f func(gateways []string)) { p.onGateways = f }

// Run reads, translates and serves until ctx ends. It fails if the paths cannot be read at all, or a listener fails. A
// cluster that does not answer is waited for.
func (p *App) Run(ctx context.Context) error {
	defer keepWithin(p.cfg.Memory)()
	group, ctx := errgroup.WithContext(ctx)
	if p.cluster != nil {
		// Health is told from the first moment on; the rest waits for what it serves.
		if err := p.serveHTTP(ctx, group); err != nil {
			return err
		}
		p.runCluster(ctx, group)
		group.Go(func() error {
			if err := p.cluster.source.Synced(ctx); err != nil {
				return quiet(ctx, err)
			}
			if err := p.hosts.ResolveOnce(ctx); err != nil {
				return quiet(ctx, err)
			}
			if f := p.cluster.fleets; f != nil {
				if err := f.authority.Ready(ctx); err != nil {
					return quiet(ctx, err)
				}
			}
			p.serve(ctx, group)
			return nil
		})
		return group.Wait()
	}
	admit := func() {}
	if len(p.cfg.Peers.Addresses) > 0 { // whom nobody else serves may as well wait here
		admit = turnAway(p.cfg.XDS, p.cfg.Picker)
	}
	err := p.Load(ctx)
	admit()
	if err != nil {
		return err
	}
	group.Go(func() error { return quiet(ctx, p.files.Run(ctx)) })
	p.serve(ctx, group)
	if err := p.serveHTTP(ctx, group); err != nil {
		return err
	}
	writer, err := status.NewWriter(status.WriterConfig{Board: p.board, Path: StatusFile(p.cfg.StateDir), Controller: Controller, Log: p.log})
	if err != nil {
		return err
	}
	group.Go(func() error { return quiet(ctx, writer.Run(ctx)) })
	return group.Wait()
}

// serve starts everything behind the store, which has been filled once.
func (p *App) serve(ctx context.Context, group *errgroup.Group) {
	rested := startTight()
	group.Go(func() error { return quiet(ctx, p.hosts.Run(ctx)) })
	group.Go(func() error { return quiet(ctx, p.translate(ctx)) })
	group.Go(func() error { return quiet(ctx, p.departed.Run(ctx)) })
	group.Go(func() error { return quiet(ctx, p.xds.Run(ctx)) })
	group.Go(func() error { return quiet(ctx, reclaim(ctx, rested)) })
	group.Go(func() error { return quiet(ctx, p.channel.Run(ctx)) })
	group.Go(func() error { return quiet(ctx, p.dialects.Run(ctx)) })
	apart := p.cfg.Peers.Listener != nil
	options := server.Options()
	if p.cluster != nil && p.cluster.fleets != nil {
		options = append(options, p.cluster.fleets.secure()...)
	}
	group.Go(func() error {
		return serveGRPC(ctx, p.cfg.XDS, 0, options, func(r grpc.ServiceRegistrar) {
			p.xds.Register(r)
			if !apart {
				p.channel.Register(r)
			}
		})
	})
	if apart {
		group.Go(func() error {
			return serveGRPC(ctx, p.cfg.Peers.Listener, 0, append(server.Options(), p.guardPeers()...), p.channel.Register)
		})
	}
	if p.picker == nil {
		return
	}
	group.Go(func() error { return quiet(ctx, p.picker.Run(ctx)) })
	group.Go(func() error { return quiet(ctx, p.learner.Run(ctx)) })
	group.Go(func() error { return quiet(ctx, p.ends.Run(ctx)) })
	group.Go(func() error { return quiet(ctx, p.pools.Run(ctx)) })
	picks := picker.ServerOptions(uint32(4 * runtime.NumCPU()))
	if p.cluster != nil && p.cluster.fleets != nil {
		picks = append(picks, p.cluster.fleets.guardPicks()...)
	}
	group.Go(func() error { return serveGRPC(ctx, p.cfg.Picker, lastPicks, picks, p.picker.Register) })
}

// Load reads all files and looks all host names up, once.
func (p *App) Load(ctx context.Context) error {
	if err := p.files.Load(ctx); err != nil {
		return err
	}
	return p.hosts.ResolveOnce(ctx)
}

// StatusFile is where the status of all objects is written.
func StatusFile(stateDir string) string { return filepath.Join(stateDir, "status.json") }

// quiet leaves out the error of a context that has ended: that is how everything ends.
func quiet(ctx context.Context, err error) error {
	if ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)) {
		return nil
	}
	return err
}

// lastPicks is how long a picker that ends goes on answering those who had asked: a pick that was answered in part, as one is
// that waits for its request's body, cannot be made again at another picker.
const lastPicks = time.Second

// serveGRPC serves until ctx ends, and then for a while those calls that are under way.
func serveGRPC(ctx context.Context, l net.Listener, linger time.Duration, options []grpc.ServerOption, register func(grpc.ServiceRegistrar)) error {
	s := grpc.NewServer(options...)
	register(s)
	stop := context.AfterFunc(ctx, func() {
		late := time.AfterFunc(linger, s.Stop)
		defer late.Stop()
		s.GracefulStop()
	})
	defer stop()
	if err := s.Serve(l); err != nil && ctx.Err() == nil {
		return fmt.Errorf("serve gRPC on %s: %w", l.Addr(), err)
	}
	return nil
}

func serveHandler(ctx context.Context, l net.Listener, h http.Handler) error {
	s := &http.Server{Handler: h, ReadHeaderTimeout: 5 * time.Second}
	stop := context.AfterFunc(ctx, func() { _ = s.Close() })
	defer stop()
	if err := s.Serve(l); err != nil && ctx.Err() == nil {
		return fmt.Errorf("serve HTTP on %s: %w", l.Addr(), err)
	}
	return nil
}
