package app

import (
	"crypto/tls"
	"log/slog"
	"net"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-project/penstock/picker/extproc"
	"github.com/penstock-project/penstock/translator/model"
	"github.com/penstock-project/penstock/xds/admission"
	"github.com/penstock-project/penstock/xds/admission/ports"
	"github.com/penstock-project/penstock/xds/identity"
	"github.com/penstock-project/penstock/xds/server"
)

type security struct {
	log          *slog.Logger
	authenticate server.Authenticate // nil: a proxy's node ID is trusted
	ads, peers   []grpc.ServerOption
	picks        *tls.Config
	dial         credentials.TransportCredentials
	keyed        bool // Gateways call the picker with keys
	openPicks    bool
	keys         tap.ServerInHandle // admits calls with a key; nil: all calls
}

func openSecurity(p Peers, log *slog.Logger) security {
	s := security{log: log}
	if p.TLS != nil {
		s.peerTLS(*p.TLS)
	}
	return s
}

func (s *security) peerTLS(t MutualTLS) {
	s.dial, s.peers = credentials.NewTLS(t.Client),
		[]grpc.ServerOption{grpc.Creds(identity.ServerCredentials(t.Server, s.log)), verifiedByTLS}
}

// verifiedByTLS marks streams as authenticated, for a server whose TLS handshakes verify clients.
var verifiedByTLS = grpc.ChainStreamInterceptor(func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo,
	next grpc.StreamHandler) error {
	admission.Admit(stream.Context())
	return next(srv, stream)
})

// budget bounds the unfinished messages of ADS and peers together, in bytes. Above it, the
// connections with the most bytes are closed.
const budget = 64 << 20

func (a *App) admit(port ports.Port, l net.Listener, authenticates bool) net.Listener {
	return port.Limit(l, admission.Config{Trusting: !authenticates, Budget: a.budget, Log: a.log})
}

func (a *App) memberOptions() []grpc.ServerOption {
	return slices.Concat(a.panics.calls(partStream),
		[]grpc.ServerOption{verifiedByTLS, grpc.ChainStreamInterceptor(closeDenied, countMessages)})
}

func closeDenied(srv any, s grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	err := next(srv, s)
	switch status.Code(err) {
	case codes.PermissionDenied, codes.Unauthenticated, codes.ResourceExhausted, codes.InvalidArgument:
		admission.CloseSoon(s.Context())
	}
	return err
}

// counting passes the size of each received message of a stream to admission. The ADS server does
// so itself.
type counting struct{ grpc.ServerStream }

func (c counting) RecvMsg(m any) error {
	err := c.ServerStream.RecvMsg(m)
	if p, ok := m.(proto.Message); ok && err == nil {
		admission.Received(c.Context(), proto.Size(p))
	}
	return err
}

func countMessages(srv any, s grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	return next(srv, counting{s})
}

// guardPicks requires a Gateway's key for each call of the picker except health checks. Root keys
// make these keys. An open picker also accepts calls without a key.
func (s *security) guardPicks(roots func() []string, open bool) {
	s.keyed, s.openPicks = true, open
	exempt := []string{grpc_health_v1.Health_ServiceDesc.ServiceName}
	if open {
		exempt = append(exempt, extproc.ServiceName)
	}
	s.keys = identity.WithKey(func(token string) string { return model.PickKeyOwner(roots(), token) }, exempt...)
}

// lowestForPicks returns TLS 1.2 for an open picker, because 1.2 is Envoy's default maximum as a
// client.
func lowestForPicks(open bool) uint16 {
	if open {
		return tls.VersionTLS12
	}
	return tls.VersionTLS13
}

func (s *security) pickCredentials() []grpc.ServerOption {
	if s.picks == nil {
		return nil
	}
	return []grpc.ServerOption{grpc.Creds(identity.ServerCredentials(s.picks, s.log))}
}

// pickOptions returns the options of the picker's gRPC server. With TLS, members may also call the
// picker.
func (a *App) pickOptions() (keys tap.ServerInHandle, options []grpc.ServerOption) {
	if a.security.picks == nil || a.set == nil {
		return a.security.keys, a.security.pickCredentials()
	}
	members := callers(a.store)
	options = []grpc.ServerOption{grpc.Creds(identity.ServerCredentials(members.TLS(a.security.picks), a.log))}
	return members.Calls(extproc.ServiceName, a.security.keys, grpc_health_v1.Health_ServiceDesc.ServiceName), options
}

// keyed limits the connections to a picker. With keys the limits are lower, because a client
// without a key may only send health checks.
func keyed(l net.Listener, keyed bool, log *slog.Logger) net.Listener {
	if !keyed {
		return ports.Picker.Limit(l, admission.Config{Trusting: true, Log: log})
	}
	return ports.Picker.Limit(l, admission.Config{PerAddress: 1024, Bytes: 64 << 10, Every: 10 * time.Second, Log: log})
}
