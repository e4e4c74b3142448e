package dial

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
)

func issued(t *testing.T, names []string, uris ...string) (chain, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), DNSNames: names,
		IsCA: true, BasicConstraintsValid: true}
	for _, text := range uris {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		c.URIs = append(c.URIs, u)
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw})
}

// serve answers health checks over TLS. If clients is set, each client needs a certificate of
// theirs.
func serve(t *testing.T, chain, key, clients []byte) Address {
	t.Helper()
	pair, err := tls.X509KeyPair(chain, key)
	if err != nil {
		t.Fatal(err)
	}
	config := &tls.Config{Certificates: []tls.Certificate{pair}}
	if clients != nil {
		config.ClientCAs, config.ClientAuth = x509.NewCertPool(), tls.RequireAndVerifyClientCert
		config.ClientCAs.AppendCertsFromPEM(clients)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer(grpc.Creds(credentials.NewTLS(config)))
	healthv1.RegisterHealthServer(s, health.NewServer())
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Stop)
	return Address{AddrPort: netip.MustParseAddrPort(l.Addr().String())}
}

func call(t *testing.T, a Address, tls TLS) error {
	t.Helper()
	conn, err := Connect(a, tls)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	_, err = healthv1.NewHealthClient(conn).Check(t.Context(), &healthv1.HealthCheckRequest{})
	return err
}

func TestEndpointPicker_CertificateIsVerifiedAsThePolicyDemands(t *testing.T) {
	chain, key := issued(t, []string{"epp.east.example", "any.pods.example"}, "spiffe://east/epp")
	other, _ := issued(t, []string{"epp.east.example"})
	at := serve(t, chain, key, nil)
	verify := func(v Verify) TLS { return TLS{ServerName: "epp.east.example", Verify: &v} }
	for _, c := range []struct {
		name  string
		tls   TLS
		words string // in the error; "" if the call succeeds
	}{
		{"not verified", TLS{}, ""},
		{"its CA and name", verify(Verify{Roots: chain, SANs: []string{"epp.east.example"}}), ""},
		{"a wildcard", verify(Verify{Roots: chain, SANs: []string{"*.pods.example"}}), ""},
		{"a URI", verify(Verify{Roots: chain, SANs: []string{"wrong.example"}, URIs: []string{"spiffe://east/epp"}}),
			""},
		{"another CA", verify(Verify{Roots: other, SANs: []string{"epp.east.example"}}), "unknown authority"},
		{"no CA at all", verify(Verify{Roots: []byte{}, SANs: []string{"epp.east.example"}}), "unknown authority"},
		{"another name", verify(Verify{Roots: chain, SANs: []string{"epp.west.example", "*.east.test"}}),
			"has none of the names epp.west.example"},
		{"no name", verify(Verify{Roots: chain}), "has none of the names"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := call(t, at, c.tls); (err == nil) != (c.words == "") ||
				err != nil && !strings.Contains(err.Error(), c.words) {
				t.Errorf("%v, want %q", err, c.words)
			}
		})
	}
}

func TestEndpointPicker_ClientCertificateIsPresented(t *testing.T) {
	chain, key := issued(t, []string{"epp.example"})
	own, ownKey := issued(t, []string{"gateway.example"})
	at := serve(t, chain, key, own)
	if err := call(t, at, TLS{}); err == nil {
		t.Error("the server took a client without a certificate")
	}
	if err := call(t, at, TLS{Certificate: own, Key: ownKey}); err != nil {
		t.Error(err)
	}
	if err := call(t, at, TLS{Certificate: own, Key: key}); err == nil ||
		!strings.Contains(err.Error(), "client certificate") {
		t.Errorf("a key of another certificate: got %v, want an error that names the client certificate", err)
	}
}

// A call sends its credential only to a server that TLS has verified.
func TestSecretRef_CredentialIsSentToAVerifiedServerAlone(t *testing.T) {
	chain, key := issued(t, []string{"epp.example"})
	other, _ := issued(t, []string{"epp.example"})
	pair, err := tls.X509KeyPair(chain, key)
	if err != nil {
		t.Fatal(err)
	}
	open, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	received := make(chan []string, 10)
	note := func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
		received <- metadata.ValueFromIncomingContext(ctx, "authorization")
		return handle(ctx, req)
	}
	for l, creds := range map[net.Listener]credentials.TransportCredentials{
		open: insecure.NewCredentials(), sealed: credentials.NewTLS(&tls.Config{Certificates: []tls.Certificate{pair}}),
	} {
		s := grpc.NewServer(grpc.Creds(creds), grpc.UnaryInterceptor(note))
		healthv1.RegisterHealthServer(s, health.NewServer())
		go func() { _ = s.Serve(l) }()
		t.Cleanup(s.Stop)
	}
	ask := func(l net.Listener, cleartext bool, ca []byte) error {
		conn, err := Connect(Address{AddrPort: netip.MustParseAddrPort(l.Addr().String()), Cleartext: cleartext},
			TLS{ServerName: "epp.example", Verify: &Verify{Roots: ca, SANs: []string{"epp.example"}}},
			Authorized("Bearer s3cret"))
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close() }()
		_, err = healthv1.NewHealthClient(conn).Check(t.Context(), &healthv1.HealthCheckRequest{})
		return err
	}
	if ask(open, true, chain) == nil || ask(sealed, false, other) == nil || len(received) != 0 {
		t.Errorf("%d calls arrived in cleartext, or at a server that is not verified; want none and errors",
			len(received))
	}
	if err := ask(sealed, false, chain); err != nil {
		t.Error(err)
	}
	if got := <-received; len(got) != 1 || got[0] != "Bearer s3cret" {
		t.Error("a verified server did not receive the credential")
	}
}
