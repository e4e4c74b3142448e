package app

import (
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/penstock-project/penstock/xds/server"
)

// security is who may connect to the servers of a process, and how it dials its peers.
type security struct {
	authorize         server.Authorize // nil: a proxy's own claims are believed
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
	s.dial, s.peers = credentials.NewTLS(t.Client), []grpc.ServerOption{grpc.Creds(credentials.NewTLS(t.Server))}
}
