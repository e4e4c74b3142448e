package picker

import (
	"context"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/experimental"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/tap"

	"github.com/penstock-project/penstock/picker/accesslog"
	"github.com/penstock-project/penstock/picker/extproc"
	"github.com/penstock-project/penstock/picker/socket"
)

// window is the HTTP/2 flow control window, in bytes: large bodies arrive without waiting for
// window updates.
const window = 8 << 20

// writeBuffer is how much is sent at once, in bytes.
const writeBuffer = 128 << 10

// maxMessage is the largest message received, in bytes: a buffered body of 32 MiB and its frame.
const maxMessage = DefaultBodyLimit + 1<<20

// keepaliveTimeout is how long a gateway may leave unanswered what it was sent.
const keepaliveTimeout = 2 * time.Second

// Listener returns a listener whose connections cost a server with ServerOptions less than those of
// l.
func Listener(l net.Listener) net.Listener { return socket.Listener(l, keepaliveTimeout) }

// ServerOptions returns the options of a gRPC server that hosts a Picker.
//
// workers is the number of goroutines that the server keeps for streams, so that their stacks grow
// once. Four times the number of CPUs is a good value; 0 keeps none. admit decides which calls may
// begin, and comes before the picker's own tap handle: gRPC has one for a server. nil admits all.
func ServerOptions(workers uint32, admit tap.ServerInHandle) []grpc.ServerOption {
	begin := extproc.ReadCall
	if admit != nil {
		begin = func(ctx context.Context, info *tap.Info) (context.Context, error) {
			ctx, err := admit(ctx, info)
			if err != nil {
				return nil, err
			}
			return extproc.ReadCall(ctx, info)
		}
	}
	options := []grpc.ServerOption{
		grpc.InTapHandle(begin),
		grpc.ForceServerCodecV2(extproc.Codec()),
		grpc.InitialWindowSize(window),
		grpc.InitialConnWindowSize(window),
		grpc.MaxRecvMsgSize(maxMessage),
		experimental.BufferPool(new(extproc.Frames)),
		// A body that is changed leaves in few system calls. A connection has a buffer only while
		// it sends.
		grpc.WriteBufferSize(writeBuffer),
		// The end of a stream ends the request of a gateway without an access log. A gateway whose
		// machine is gone closes no stream. Connections that are in use, or on which Envoy pings,
		// cause no ping.
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: 2 * time.Second, Timeout: keepaliveTimeout}),
		// Envoy keeps idle connections alive with pings. By default gRPC treats more than one ping
		// in five minutes as abuse and closes the connection, which loses picks.
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{
			MinTime: 100 * time.Millisecond, PermitWithoutStream: true,
		}),
	}
	if workers > 0 {
		options = append(options, grpc.NumStreamWorkers(workers))
	}
	return options
}

// Register adds the picker's services to a server: external processing, the access log, health.
func (p *Picker) Register(r grpc.ServiceRegistrar) {
	extproc.New(extproc.Config{Picker: p, Bodies: p.wire.bodies, ImportBodies: p.wire.imports, Calls: p.wire.calls,
		Gateway: p.config.Callers.Gateway, Member: p.config.Callers.Member, Uploads: p, Failures: p,
		Names: p.config.Protocol.Names}).Register(r)
	accesslog.New(accesslog.Config{Sink: p, Gateway: p.config.Callers.Gateway, Attempts: p.config.Reports.Attempt}).
		Register(r)
	p.RegisterHealth(r)
}

// RegisterFor adds the services for gateways of other clusters that pick from one pool,
// "namespace/name": external processing and health.
func (p *Picker) RegisterFor(pool string, r grpc.ServiceRegistrar) {
	extproc.New(extproc.Config{Picker: p, ImportBodies: p.wire.imports, Calls: p.wire.calls,
		Names: p.config.Protocol.Names, Pool: pool}).Register(r)
	p.RegisterHealth(r)
}

// RegisterHealth adds the health service alone.
func (p *Picker) RegisterHealth(r grpc.ServiceRegistrar) {
	grpc_health_v1.RegisterHealthServer(r, p.health)
}

// Leave has health checks report that this picker is about to end, so that gateways ask another
// one. It still picks.
func (p *Picker) Leave() {
	p.pools.mu.Lock()
	defer p.pools.mu.Unlock()
	p.pools.leaving = true
	for _, name := range healthServices {
		p.health.SetServingStatus(name, grpc_health_v1.HealthCheckResponse_NOT_SERVING)
	}
}

// healthServices are the names under which gateways, kubelets and the conformance suite check
// health. "liveness" is the process's health; these are SERVING when the picker has pools.
var healthServices = []string{"", "readiness", "inference-extension", extproc.ServiceName}

func (p *Picker) startHealth() {
	p.health.SetServingStatus("liveness", grpc_health_v1.HealthCheckResponse_SERVING)
	for _, name := range healthServices {
		p.health.SetServingStatus(name, grpc_health_v1.HealthCheckResponse_NOT_SERVING)
	}
}

// ready sets the health services to SERVING: the picker has pools. With Protocol.OnePool it needs a
// default one. p.pools.mu is held.
func (p *Picker) ready() {
	if p.pools.leaving {
		return
	}
	serving := grpc_health_v1.HealthCheckResponse_SERVING
	if p.config.Protocol.OnePool && !p.HasDefault() {
		serving = grpc_health_v1.HealthCheckResponse_NOT_SERVING
	}
	for _, name := range healthServices {
		p.health.SetServingStatus(name, serving)
	}
}

// HasDefault reports whether there is a pool for gateways that name none.
func (p *Picker) HasDefault() bool { return p.pools.now.Load().byDefault != nil }
