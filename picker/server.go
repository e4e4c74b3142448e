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
	"github.com/penstock-project/penstock/picker/authz"
	"github.com/penstock-project/penstock/picker/extproc"
	"github.com/penstock-project/penstock/picker/socket"
)

// window is the HTTP/2 flow control window, in bytes. Large bodies fit without window updates.
const window = 8 << 20

const writeBuffer = 128 << 10 // in bytes

// maxMessage is in bytes: a buffered body of 32 MiB and its frame.
const maxMessage = DefaultBodyLimit + 1<<20

const keepaliveTimeout = 2 * time.Second

// Listener wraps l, which makes connections cheaper in a server with ServerOptions.
func Listener(l net.Listener) net.Listener { return socket.Listener(l, keepaliveTimeout) }

// ServerOptions returns the options of a gRPC server for a Picker. The server reuses workers
// goroutines for streams, so that each stack grows only once. admit decides which calls may begin;
// nil admits all. The picker's tap handle calls admit, because a gRPC server has only one tap
// handle.
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
		// A changed body is sent in few system calls.
		grpc.WriteBufferSize(writeBuffer),
		// If a gateway's machine fails, its streams stay open without an error. Keepalive closes
		// them: for a gateway without an access log, only the stream's end ends a request's lease.
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: 2 * time.Second, Timeout: keepaliveTimeout}),
		// Envoy keeps idle connections alive with pings. By default, gRPC treats more than one ping
		// in five minutes as abuse and closes the connection.
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{
			MinTime: 100 * time.Millisecond, PermitWithoutStream: true,
		}),
	}
	if workers > 0 {
		options = append(options, grpc.NumStreamWorkers(workers))
	}
	return options
}

// Register adds external processing, the access log and health to a server.
func (p *Picker) Register(r grpc.ServiceRegistrar) {
	extproc.New(extproc.Config{Picker: p, Bodies: p.wire.bodies, ImportBodies: p.wire.imports, Calls: p.wire.calls,
		Gateway: p.config.Callers.Gateway, Member: p.config.Callers.Member, Uploads: p, Failures: p,
		Watches: p.config.Watches, Names: p.config.Protocol.Names}).Register(r)
	accesslog.New(accesslog.Config{Sink: p, Gateway: p.config.Callers.Gateway, Attempts: p.config.Reports.Attempt,
		Usage: p.config.Reports.Used}).Register(r)
	p.RegisterHealth(r)
}

// RegisterFor adds external processing and health for other clusters' gateways that pick from one
// pool, "namespace/name".
func (p *Picker) RegisterFor(pool string, r grpc.ServiceRegistrar) {
	extproc.New(extproc.Config{Picker: p, ImportBodies: p.wire.imports, Calls: p.wire.calls,
		Names: p.config.Protocol.Names, Pool: pool}).Register(r)
	p.RegisterHealth(r)
}

// RegisterHealth adds only the health service.
func (p *Picker) RegisterHealth(r grpc.ServiceRegistrar) {
	grpc_health_v1.RegisterHealthServer(r, p.health)
}

// Leave makes health checks fail, so that gateways call another picker. Picks still work.
func (p *Picker) Leave() {
	p.pools.mu.Lock()
	defer p.pools.mu.Unlock()
	p.pools.leaving = true
	for _, name := range healthServices {
		p.health.SetServingStatus(name, grpc_health_v1.HealthCheckResponse_NOT_SERVING)
	}
}

// healthServices are the service names that gateways, kubelets and the conformance suite check.
var healthServices = []string{"", "readiness", "inference-extension", extproc.ServiceName, authz.ServiceName}

func (p *Picker) startHealth() {
	p.health.SetServingStatus("liveness", grpc_health_v1.HealthCheckResponse_SERVING)
	for _, name := range healthServices {
		p.health.SetServingStatus(name, grpc_health_v1.HealthCheckResponse_NOT_SERVING)
	}
}

// The caller holds p.pools.mu.
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

// HasDefault reports whether a default pool exists.
func (p *Picker) HasDefault() bool { return p.pools.now.Load().byDefault != nil }
