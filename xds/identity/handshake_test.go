package identity_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/credentials"

	"github.com/penstock-project/penstock/xds/authority"
	"github.com/penstock-project/penstock/xds/identity"
)

func TestServerCredentials_DeniedHandshakeIsOneLineWithItsReason(t *testing.T) {
	t.Parallel()
	now := time.Now()
	ours, theirs := newCA(t, now.Add(-3*time.Hour)), newCA(t, now.Add(-3*time.Hour))
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ours.Cert)
	config := &tls.Config{Certificates: []tls.Certificate{issued(t, ours, now, true)},
		ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: roots, MinVersion: tls.VersionTLS13}
	for name, c := range map[string]struct {
		client func() *tls.Certificate // nil if the client closes the connection at once
		want   string                  // "" if no line is logged
	}{
		"no certificate": {func() *tls.Certificate { return &tls.Certificate{} },
			`reason="the client has no certificate: see penstock bootstrap --help"`},
		"another CA": {func() *tls.Certificate { c := issued(t, theirs, now, false); return &c },
			`reason="the client's certificate is of another CA: see penstock bootstrap --help"`},
		"expired": {func() *tls.Certificate { c := issued(t, ours, now.Add(-2*time.Hour), false); return &c },
			`reason="the client's certificate is valid from `},
		"probe": {nil, ""},
		"valid": {func() *tls.Certificate { c := issued(t, ours, now, false); return &c }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lines := [2]string{}
			for i := range lines {
				var log bytes.Buffer
				logger := slog.New(slog.NewTextHandler(&log,
					&slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
						if a.Key == slog.TimeKey {
							return slog.Attr{}
						}
						return a
					}}))
				handshake(t, identity.ServerCredentials(config, logger), roots, c.client)
				lines[i] = log.String()
			}
			if lines[0] != lines[1] || (c.want == "") != (lines[0] == "") || !strings.Contains(lines[0], c.want) {
				t.Errorf("logged %q and then %q, want one with %q", lines[0], lines[1], c.want)
			}
		})
	}
}

func newCA(t *testing.T, from time.Time) authority.Pair {
	t.Helper()
	ca, err := authority.NewPair(from, 24*time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

func issued(t *testing.T, ca authority.Pair, from time.Time, server bool) tls.Certificate {
	t.Helper()
	p, err := ca.Issue(from, time.Hour, server, "penstock")
	if err != nil {
		t.Fatal(err)
	}
	cert, err := tls.X509KeyPair(p.Cert, p.Key)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func handshake(t *testing.T, server credentials.TransportCredentials, roots *x509.CertPool,
	client func() *tls.Certificate) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	go func() {
		conn, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			return
		}
		if client == nil {
			_ = conn.Close()
			return
		}
		// Envoy, too, presents its certificate if the server does not name its CA.
		certificate := func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return client(), nil }
		c := tls.Client(conn,
			&tls.Config{RootCAs: roots, ServerName: "penstock", GetClientCertificate: certificate,
				NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS13})
		_, _ = c.Read(make([]byte, 1)) // waits until the server has closed the connection
		_ = c.Close()
	}()
	raw, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	conn, _, err := server.ServerHandshake(raw)
	if err == nil {
		_ = conn.Close()
	}
	_ = raw.Close()
}
