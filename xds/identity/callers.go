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

// Callers lets Gateways of other clusters in a cluster set call a port that also has other clients.
// These Gateways connect by mTLS, with a server name below Domain.
type Callers struct {
	Domain string // such as "pool.penstock"
	// Certificate returns the certificate for a server name. An error denies the connection.
	Certificate func(serverName string) (*tls.Certificate, error)
	Verify      func(chain []*x509.Certificate) error
}

func (m Callers) named(serverName string) bool { return strings.HasSuffix(serverName, "."+m.Domain) }

// TLS returns a copy of server that also serves Gateways of other clusters. They cannot resume TLS
// sessions, because their cluster may have left the set.
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

// Calls lets Gateways of other clusters call only the services `service` and `exempt`.
func (m Callers) Calls(service string, next tap.ServerInHandle, exempt string) tap.ServerInHandle {
	return func(ctx context.Context, call *tap.Info) (context.Context, error) {
		name, ok := m.member(ctx)
		switch {
		case ok && strings.HasPrefix(call.FullMethodName, "/"+service+"/"):
			admission.Admit(ctx)
			return context.WithValue(ctx, memberKey{}, name), nil
		case ok && !strings.HasPrefix(call.FullMethodName, "/"+exempt+"/"):
			return ctx, status.Error(codes.PermissionDenied, "members of the cluster set may call only the picker")
		case next == nil || ok:
			return ctx, nil
		}
		return next(ctx, call)
	}
}

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

// Member returns the name of the other cluster whose Gateway makes the call, or "".
func Member(ctx context.Context) string {
	name, _ := ctx.Value(memberKey{}).(string)
	return name
}
