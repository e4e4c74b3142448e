package server

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
	"google.golang.org/grpc"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/xds/cache"
	"github.com/penstock-project/penstock/xds/publish"
)

// Reports receives the rejections of proxies, by owner.
type Reports interface {
	// Rejected replaces one proxy's rejections: one report for each owner, sorted, or none.
	Rejected(gateway, node string, reports []report.Report)
}

// Config configures a Server.
type Config struct {
	// Cache has the served resources. Required.
	Cache *cache.Cache
	// Authenticate is called once for each stream. Default: TrustNode.
	Authenticate Authenticate
	// Reports, Log, Metrics and Tracing may be nil.
	Reports Reports
	Log     *slog.Logger
	Metrics prometheus.Registerer
	Tracing trace.TracerProvider
	// Count is called with a gateway's new number of streams. It must not call the Server.
	Count func(gateway string, streams int)
	// FirstMessage limits the wait for an authenticated proxy's first message. Default: 1 min,
	// because a thousand proxies may reconnect at once.
	FirstMessage time.Duration
	// The Server sets Publish.StateOfTheWorld.
	Publish publish.Config
	// Absence is how long the rejections of a disconnected proxy stay reported. Default: 1 min.
	Absence time.Duration
	// OnPanic is called when the goroutine that receives a proxy's messages panics. The stream then
	// ends.
	OnPanic func(proxy string, value any, stack []byte)
	// Now is the clock. Default: time.Now.
	Now func() time.Time
}

// Server is the AggregatedDiscoveryService. It is safe for concurrent use.
type Server struct {
	discoveryv3.UnimplementedAggregatedDiscoveryServiceServer
	config     Config
	metrics    *metrics
	tracer     trace.Tracer
	rejections rejections

	mu       sync.Mutex
	gateways map[string]*gateway
	stopped  bool
}

// New returns an unregistered server. It fails if one of its metrics is registered.
func New(c Config) (*Server, error) {
	c.FirstMessage = cmp.Or(c.FirstMessage, time.Minute)
	if c.Authenticate == nil {
		c.Authenticate = TrustNode
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.OnPanic == nil {
		c.OnPanic = func(string, any, []byte) {}
	}
	if c.Tracing == nil {
		c.Tracing = noop.NewTracerProvider()
	}
	c.Absence = cmp.Or(c.Absence, time.Minute)
	s := &Server{
		config: c, gateways: map[string]*gateway{},
		rejections: rejections{reporters: map[proxyName]reporter{}, wake: make(chan struct{}, 1)},
		tracer:     c.Tracing.Tracer("github.com/penstock-project/penstock/xds/server"),
	}
	var err error
	if s.metrics, err = newMetrics(c.Metrics, s.lag); err != nil {
		return nil, fmt.Errorf("xds server: %w", err)
	}
	return s, nil
}

// Register adds the service to a gRPC server with Options.
func (s *Server) Register(g grpc.ServiceRegistrar) {
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(g, s)
}

// Run clears expired rejections. When ctx ends, it ends all streams, because a graceful stop of the
// gRPC server would wait for them. It may be called once.
func (s *Server) Run(ctx context.Context) error {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for ctx.Err() == nil {
		timer.Stop()
		if next := s.expire(); !next.IsZero() {
			timer.Reset(next.Sub(s.config.Now()))
		}
		select {
		case <-s.rejections.wake:
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
func (s *Server) DeltaAggregatedResources(
	g grpc.BidiStreamingServer[discoveryv3.DeltaDiscoveryRequest, discoveryv3.DeltaDiscoveryResponse]) error {
	return s.serve(g.Context(), deltaWire{g})
}

// StreamAggregatedResources implements the service.
func (s *Server) StreamAggregatedResources(
	g grpc.BidiStreamingServer[discoveryv3.DiscoveryRequest, discoveryv3.DiscoveryResponse]) error {
	return s.serve(g.Context(), stateWire{g})
}
