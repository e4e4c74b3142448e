package app

import (
	"log/slog"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/penstock-project/penstock/xds/admission"
	"github.com/penstock-project/penstock/xds/server"
)

// security is who may connect to the servers of a process, and how it dials its peers.
type security struct {
	authenticate      server.Authenticate // nil: a proxy's own claims are believed
	ads, picks, peers []grpc.ServerOption
	dial              credentials.TransportCredentials // nil: cleartext
}

// openSecurity admits every Envoy; peers prove their identity if TLS is configured.
func openSecurity(p Peers) security {
	var s security
	if p.TLS != nil {
		s.peerTLS(*p.TLS)
	}
	return s
}

// peerTLS has peers prove their identity.
func (s *security) peerTLS(t MutualTLS) {
	admit := func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
		admission.Admit(stream.Context()) // the handshake has verified the peer
		return next(srv, stream)
	}
	s.dial, s.peers = credentials.NewTLS(t.Client), []grpc.ServerOption{grpc.Creds(credentials.NewTLS(t.Server)), grpc.ChainStreamInterceptor(admit)}
}

// limited limits the connections of a listener until their clients have authenticated. Where all are trusted, there is
// nothing to wait for.
func limited(l net.Listener, authenticates bool, log *slog.Logger) net.Listener {
	if !authenticates {
		return l
	}
	return admission.Listen(l, admission.Config{Log: log})
}
