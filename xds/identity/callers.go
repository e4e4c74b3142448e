package identity

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"

	"github.com/penstock-project/penstock/xds/admission"
)

// Callers are Gateways of the other clusters of a set. They call a port beside its own clients,
// over mTLS: the server name of their connections is below Domain.
type Callers struct {
	Domain string // such as "pool.penstock"
	// Certificate returns what this cluster presents to members under a server name. An error
	// denies the connection.
	Certificate func(serverName string) (*tls.Certificate, error)
	// Verify verifies what a client presents.
	Verify func(chain []*x509.Certificate) error
}

// named reports whether a connection with a server name is a member's. Each such connection was
// verified.
func (m Callers) named(serverName string) bool { return strings.HasSuffix(serverName, "."+m.Domain) }

// TLS returns a server's configuration that serves members, too. No session of a member is resumed:
// it may be none any more.
func (m Callers) TLS(server *tls.Config) *tls.Config {
	out := server.Clone()
	others := out.GetConfigForClient
	out.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		if !m.named(hello.ServerName) {
			if others == nil {
				return nil, nil
			}
			return others(hello)
		}
		own, err := m.Certificate(hello.ServerName)
		if err != nil {
			return nil, err
		}
		return &tls.Config{
			MinVersion: tls.VersionTLS13, NextProtos: []string{"h2"}, Certificates: []tls.Certificate{*own},
			SessionTicketsDisabled: true,
			ClientAuth:             tls.RequireAnyClientCert, VerifyConnection: func(s tls.ConnectionState) error {
				return m.Verify(s.PeerCertificates)
			},
		}, nil
	}
	return out
}

type memberKey struct{}

// Calls has members call one service, and denies them all others but health; other clients' calls
// pass next.
func (m Callers) Calls(service string, next tap.ServerInHandle, exempt string) tap.ServerInHandle {
	return func(ctx context.Context, call *tap.Info) (context.Context, error) {
		name, ok := m.member(ctx)
		switch {
		case ok && strings.HasPrefix(call.FullMethodName, "/"+service+"/"):
			admission.Admit(ctx)
			return context.WithValue(ctx, memberKey{}, name), nil
		case ok && !strings.HasPrefix(call.FullMethodName, "/"+exempt+"/"):
			return ctx, status.Error(codes.PermissionDenied, "members of the cluster set call the picker alone")
		case next == nil || ok:
			return ctx, nil
		}
		return next(ctx, call)
	}
}

// member is the cluster whose Gateway makes a call.
func (m Callers) member(ctx context.Context) (name string, ok bool) {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return "", false
	}
	info, ok := p.AuthInfo.(credentials.TLSInfo)
	if !ok || !m.named(info.State.ServerName) || len(info.State.PeerCertificates) == 0 ||
		len(info.State.PeerCertificates[0].URIs) == 0 {
		return "", false
	}
	return info.State.PeerCertificates[0].URIs[0].Host, true
}

// Member returns the cluster whose Gateway makes a call; "" if none of another cluster was
// verified.
func Member(ctx context.Context) string {
	name, _ := ctx.Value(memberKey{}).(string)
	return name
}
