package server

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/xds/cache"
	"github.com/penstock-project/penstock/xds/publish"
)

// Reports takes what proxies refuse, for the objects that it was made from.
type Reports interface {
	// Refused is everything that one proxy refuses now, one report an owner, sorted; empty: nothing any more, or the
	// proxy is gone and did not come back within Config.Absence.
	Refused(gateway, node string, reports []report.Report)
}

// Authorize says which gateway ("namespace/name") a node may read, by what its connection proves. An error refuses it. still says
// whether it may go on reading, for as long as the stream lasts: see Server.Recheck; nil: it may.
type Authorize func(ctx context.Context, node *corev3.Node) (gateway string, still func() error, err error)

// TrustNode believes what the node says in node.cluster: for loopback and sockets only.
func TrustNode(_ context.Context, node *corev3.Node) (string, func() error, error) {
	gateway := node.GetCluster()
	if ns, name, ok := strings.Cut(gateway, "/"); !ok || ns == "" || name == "" {
		return "", nil, fmt.Errorf("node.cluster is %q: it must name the Gateway, as namespace/name", gateway)
	}
	return gateway, nil, nil
}

// Config is what a Server needs.
type Config struct {
	// Cache is what is served. Required.
	Cache *cache.Cache
	// Authorize is asked once a stream. Default: TrustNode.
	Authorize Authorize
	// Reports, Log, Metrics and Tracing may be nil: nobody is told.
	Reports Reports
	Log     *slog.Logger
	Metrics prometheus.Registerer
	Tracing trace.TracerProvider
	// Count is told how many streams a gateway has, whenever that has changed; nil: nobody is. It must not call back.
	Count func(gateway string, streams int)
	// Publish is how changes are ordered; its StateOfTheWorld is set by the kind of stream.
	Publish publish.Config
	// Absence is how long what a proxy refuses stays reported when it disconnects. Default: 1 min.
	Absence time.Duration
	// Now is the clock; time.Now if nil.
	Now func() time.Time
}

// Server is the AggregatedDiscoveryService. Safe for use by many.
type Server struct {
	discoveryv3.UnimplementedAggregatedDiscoveryServiceServer
	config   Config
	metrics  *metrics
	tracer   trace.Tracer
	refusals refusals

	mu       sync.Mutex
	gateways map[string]*gateway
	stopped  bool // Run has ended
}

// New makes a server; it serves when it is registered. An error is a metric that exists already.
func New(c Config) (*Server, error) {
	if c.Authorize == nil {
		c.Authorize = TrustNode
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Tracing == nil {
		c.Tracing = noop.NewTracerProvider()
	}
	c.Absence = cmp.Or(c.Absence, time.Minute)
	s := &Server{
		config: c, gateways: map[string]*gateway{},
		refusals: refusals{said: map[proxyName]voice{}, wake: make(chan struct{}, 1)},
		tracer:   c.Tracing.Tracer("github.com/penstock-project/penstock/xds/server"),
	}
	var err error
	if s.metrics, err = newMetrics(c.Metrics, s.trouble); err != nil {
		return nil, fmt.Errorf("xds server: %w", err)
	}
	return s, nil
}

// window is HTTP/2's flow control window, in bytes. Setting it also keeps gRPC from enlarging it by itself.
const window = 64 << 10

// Options are what a gRPC server must be made with that a Server is registered on. Other services may share it.
func Options() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.ForceServerCodecV2(newCodec()),
		// The bootstrap lets Envoy ping every 10 s; gRPC's default takes that for an attack.
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true}),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: 30 * time.Second, Timeout: 10 * time.Second}),
		// As small as they can be, and no larger when much arrives: what a thousand proxies say at once waits on the wire.
		grpc.InitialWindowSize(window), grpc.InitialConnWindowSize(window),
		// A proxy that comes back names everything that it has.
		grpc.MaxRecvMsgSize(64 << 20),
	}
}

// Register adds the service to a gRPC server made with Options.
func (s *Server) Register(g grpc.ServiceRegistrar) {
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(g, s)
}

// Run waits for the context's end and then ends all streams, which a graceful stop of the gRPC server would wait for
// without end. Meanwhile it takes back what proxies refused that are gone for good. It may be called once; the server
// serves without it as well.
func (s *Server) Run(ctx context.Context) error {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for ctx.Err() == nil {
		timer.Stop()
		if next := s.expire(); !next.IsZero() {
			timer.Reset(next.Sub(s.config.Now()))
		}
		select {
		case <-s.refusals.wake:
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = true
	for _, g := range s.gateways {
		for st := range g.streams {
			st.end(errStopped)
		}
	}
	return nil
}

// DeltaAggregatedResources implements the service.
func (s *Server) DeltaAggregatedResources(g grpc.BidiStreamingServer[discoveryv3.DeltaDiscoveryRequest, discoveryv3.DeltaDiscoveryResponse]) error {
	return s.serve(g.Context(), deltaWire{g})
}

// StreamAggregatedResources implements the service.
func (s *Server) StreamAggregatedResources(g grpc.BidiStreamingServer[discoveryv3.DiscoveryRequest, discoveryv3.DiscoveryResponse]) error {
	return s.serve(g.Context(), stateWire{g})
}
