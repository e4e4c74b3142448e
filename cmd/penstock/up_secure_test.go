package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/penstock-project/penstock/picker/modelserver"
	"github.com/penstock-project/penstock/xds/identity"
	"github.com/penstock-project/penstock/xds/resource"
)

func credentialsFor(t *testing.T, dir string) string {
	t.Helper()
	if out, err := penstock(t, "credentials", "--dir", dir, "--host", "127.0.0.1"); err != nil ||
		!strings.Contains(out, "--xds-client-ca "+filepath.Join(dir, "ca.crt")) {
		t.Fatalf("got %v\n%s\nwant --xds-client-ca", err, out)
	}
	return dir
}

func dialTLS(t *testing.T, address, dir, client string) *grpc.ClientConn {
	t.Helper()
	roots, err := identity.Pool(nil, filepath.Join(dir, "ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	cfg := &tls.Config{RootCAs: roots, ServerName: "penstock"}
	if client != "" {
		cert, err := tls.LoadX509KeyPair(filepath.Join(dir, client+".crt"), filepath.Join(dir, client+".key"))
		if err != nil {
			t.Fatal(err)
		}
		// This callback sends the certificate even if the server lists other CAs.
		cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &cert, nil }
	}
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(credentials.NewTLS(cfg)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func listeners(ctx context.Context, conn *grpc.ClientConn) error {
	s, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(ctx)
	if err != nil {
		return err
	}
	// If the stream has ended, Send's error lacks the reason: Recv returns it.
	_ = s.Send(&discoveryv3.DeltaDiscoveryRequest{
		Node: &corev3.Node{Id: "test", Cluster: "default/gw"}, TypeUrl: resource.Listener.URL(),
	})
	_, err = s.Recv()
	return err
}

func pick(ctx context.Context, conn *grpc.ClientConn) error {
	s, err := extprocv3.NewExternalProcessorClient(conn).Process(ctx)
	if err != nil {
		return err
	}
	_ = s.CloseSend()
	_, err = s.Recv()
	return err
}

func TestXDSCredentials_ServeEnvoyAndDenyOthers(t *testing.T) {
	t.Parallel()
	port, metrics, xds, picks := freePort(t), freePort(t), fmt.Sprintf("127.0.0.1:%d", freePort(t)),
		fmt.Sprintf("127.0.0.1:%d", freePort(t))
	s := prepare(t, chatFiles(port, modelServer(t, modelserver.Config{})))
	dir := credentialsFor(t, filepath.Join(t.TempDir(), "credentials"))
	in := func(name string) string { return filepath.Join(dir, name) }
	tokens := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(tokens, []byte("first-token-of-envoys\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.run("serve", "--xds", xds, "--picker", picks, "--xds-cert", in("penstock.crt"), "--xds-key", in("penstock.key"),
		"--xds-client-ca", in("ca.crt"), "--xds-token", tokens, "--http", fmt.Sprintf("127.0.0.1:%d", metrics))
	s.out.expect(t, "ADS at "+xds)
	s.attachWith([]string{"--xds", xds, "--tls-server-name", "penstock", "--tls-ca", in("ca.crt"), "--tls-cert",
		in("envoy.crt"), "--tls-key", in("envoy.key"), "--secrets", filepath.Join(s.state, "secrets")})
	answers(t, local(port), http.StatusOK)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, local(metrics)+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := do(client(), req); err != nil ||
		!strings.Contains(got.body, `penstock_picker_picks_total{pool="default/chat",result="picked"} 1`) {
		t.Errorf("metrics: got %v\n%s\nwant 1 pick", err, got.body)
	}

	none := dialTLS(t, xds, dir, "")
	if err := listeners(t.Context(), none); status.Code(err) != codes.PermissionDenied {
		t.Errorf("without a credential: got %v, want PermissionDenied", err)
	}
	bearing := func(token string) context.Context {
		return metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+token)
	}
	if err := listeners(bearing("another-token"), none); status.Code(err) != codes.PermissionDenied {
		t.Errorf("with another token: got %v, want PermissionDenied", err)
	}
	if err := listeners(bearing("first-token-of-envoys"), none); err != nil {
		t.Errorf("with the token: %v", err)
	}
	other := credentialsFor(t, filepath.Join(t.TempDir(), "other"))
	for _, f := range []string{"crt", "key"} { // a client that trusts our CA, with a certificate of another one
		text, err := os.ReadFile(filepath.Join(other, "envoy."+f))
		if err == nil {
			err = os.WriteFile(in("foe."+f), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := listeners(t.Context(), dialTLS(t, xds, dir, "foe")); err == nil {
		t.Error("a certificate of another CA is accepted")
	}
	s.errs.expect(t, "the client's certificate is of another CA")
	if err := pick(t.Context(), dialTLS(t, picks, dir, "envoy")); status.Code(err) != codes.Unauthenticated {
		t.Errorf("a pick without the key: got %v, want Unauthenticated", err)
	}
}

func TestXDSCredentials_ReplacedFilesTakeEffect(t *testing.T) {
	t.Parallel()
	port, xds := freePort(t), fmt.Sprintf("127.0.0.1:%d", freePort(t))
	s := prepare(t, chatFiles(port, modelServer(t, modelserver.Config{})))
	dir := credentialsFor(t, filepath.Join(t.TempDir(), "credentials"))
	in := func(name string) string { return filepath.Join(dir, name) }
	s.run("serve", "--xds", xds, "--picker", "127.0.0.1:0", "--xds-cert", in("penstock.crt"), "--xds-key",
		in("penstock.key"), "--xds-client-ca", in("ca.crt"))
	s.out.expect(t, "ADS at "+xds)
	s.attachWith([]string{"--xds", xds, "--tls-server-name", "penstock", "--tls-ca", in("ca.crt"), "--tls-cert",
		in("envoy.crt"), "--tls-key", in("envoy.key")})
	answers(t, local(port), http.StatusOK)
	credentialsFor(t, dir)
	if err := listeners(t.Context(), dialTLS(t, xds, dir, "envoy")); err != nil {
		t.Errorf("with the new certificate: %v", err)
	}
	if err := listeners(t.Context(), dialTLS(t, xds, dir, "")); err == nil {
		t.Error("a client without a certificate is served")
	}
	s.errs.expect(t,
		`msg="connection denied" peer=127.0.0.1 reason="the client has no certificate: see penstock bootstrap --help"`)
	answers(t, local(port), http.StatusOK)
}

func TestXDSAddress_OtherThanSocketsRequireCredentials(t *testing.T) {
	dir := credentialsFor(t, filepath.Join(t.TempDir(), "credentials"))
	in := func(name string) string { return filepath.Join(dir, name) }
	files := []string{"--xds-cert", in("penstock.crt"), "--xds-key", in("penstock.key"), "--xds-client-ca",
		in("ca.crt")}
	config, empty := t.TempDir(), filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(empty, []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"ADS":             {[]string{"--xds", "0.0.0.0:0"}, "--xds .* private keys.*unix:PATH.*--xds-cert"},
		"ADS on loopback": {[]string{"--xds", "127.0.0.1:0"}, "--xds .* private keys.*unix:PATH.*--xds-cert"},
		"no socket":       {[]string{"--xds", "unix:" + in("ca.crt")}, "--xds: .*ca.crt is no socket"},
		"picker":          {[]string{"--picker", ":0"}, "--picker .* is not a loopback address"},
		"peers": {[]string{"--peers-listen", "0.0.0.0:0"},
			"--peers-listen .* is no socket.*--peers-ca"},
		"peers on loopback": {[]string{"--peers-listen", "127.0.0.1:0"},
			"--peers-listen .* is no socket.*--peers-ca"},
		"a peer elsewhere":   {[]string{"--peers", "192.0.2.1:18000"}, "--peers 192.0.2.1:18000 is no socket"},
		"a peer on loopback": {[]string{"--peers", "127.0.0.1:18000"}, "--peers 127.0.0.1:18000 is no socket"},
		"half of the files":  {[]string{"--xds-cert", in("penstock.crt")}, "require each other"},
		"no verification":    {files[:4], "--xds-client-ca or --xds-token"},
		"a token alone":      {append([]string{"--xds-token", in("ca.crt")}, files[:4]...), "requires --xds-ca"},
		"an empty token file": {append([]string{"--xds-token", empty}, files...),
			"^--xds-token .*: the file has no token$"},
		"no token file": {append([]string{"--xds-token", in("none")}, files...),
			"^--xds-token: .*none: no such file or directory$"},
		"another CA": {append([]string{"--xds-ca", in("envoy.crt")}, files...),
			"does not verify --xds-cert"},
		"both":                     {append([]string{"--insecure-picker"}, files...), "exclude each other"},
		"peers at the port of ADS": {append([]string{"--peers", "127.0.0.1:1"}, files...), "requires --peers-listen"},
		"an open picker":           {[]string{"--picker-open"}, "requires --xds-cert"},
	} {
		args := append([]string{"serve", "-f", config, "--state", filepath.Join(shortTemp(t), "s"), "--picker",
			"127.0.0.1:0"}, tc.args...)
		_, err := penstock(t, args...)
		if err == nil {
			t.Errorf("%s: penstock starts, want an error with %s", name, tc.want)
		} else if !regexp.MustCompile(tc.want).MatchString(err.Error()) {
			t.Errorf("%s: got %v, want %s", name, err, tc.want)
		}
	}
	if _, err := penstock(t, "bootstrap", "--gateway", "default/gw", "--xds", "192.0.2.1:18000"); err == nil ||
		!strings.Contains(err.Error(), "add --tls-ca") {
		t.Errorf("bootstrap: got %v, want add --tls-ca", err)
	}
}

func TestPickerAddress_InsecureWarnsAtEachStart(t *testing.T) {
	t.Parallel()
	s := prepare(t, chatFiles(freePort(t), modelServer(t, modelserver.Config{})))
	for range 2 {
		s.run("serve", "--picker", "0.0.0.0:0", "--insecure-picker")
		s.errs.expect(t, "flag=--picker")
		s.stop()
	}
}

// penstock up's own Envoys need no certificate: they use a socket that only this user can open.
func TestXDSCredentials_UpServesPicksToGatewaysElsewhere(t *testing.T) {
	t.Parallel()
	port, picks := freePort(t), fmt.Sprintf("127.0.0.1:%d", freePort(t))
	dir := credentialsFor(t, filepath.Join(t.TempDir(), "credentials"))
	in := func(name string) string { return filepath.Join(dir, name) }
	s := up(t, chatFiles(port, modelServer(t, modelserver.Config{})), "--picker", picks, "--picker-open", "--xds-cert",
		in("penstock.crt"), "--xds-key", in("penstock.key"), "--xds-client-ca", in("ca.crt"))
	answers(t, local(port), http.StatusOK)
	if err := pick(t.Context(), dialTLS(t, picks, dir, "")); status.Code(err) == codes.Unauthenticated ||
		status.Code(err) == codes.Unavailable {
		t.Errorf("a gateway elsewhere: got %v, want the picker's answer", err)
	}
	info, err := os.Stat(filepath.Join(s.state, "xds.sock"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the socket of ADS: got %v %v, want 0600", info.Mode(), err)
	}
}

// Two control planes use files of `penstock credentials`. Their peer ports deny Envoys.
func TestXDSCredentials_PeersDenyEnvoys(t *testing.T) {
	t.Parallel()
	port := freePort(t)
	dir := credentialsFor(t, filepath.Join(t.TempDir(), "credentials"))
	in := func(name string) string { return filepath.Join(dir, name) }
	var xds, picks, others []string
	for range 2 {
		for _, list := range []*[]string{&xds, &picks, &others} {
			*list = append(*list, fmt.Sprintf("127.0.0.1:%d", freePort(t)))
		}
	}
	files := chatFiles(port, modelServer(t, modelserver.Config{}))
	var sites []*site
	for i := range 2 {
		s := prepare(t, files)
		sites = append(sites, s)
		s.run("serve", "--xds", xds[i], "--picker", picks[i], "--picker-address", strings.Join(picks, ","), "--peers",
			strings.Join(others, ","), "--peers-listen", others[i],
			"--xds-cert", in("penstock.crt"), "--xds-key", in("penstock.key"), "--xds-client-ca", in("ca.crt"),
			"--peers-ca", in("ca.crt"), "--peers-cert", in("penstock.crt"), "--peers-key", in("penstock.key"))
	}
	for _, s := range sites {
		s.errs.expect(t, "connected to a peer")
	}
	sites[0].attachWith([]string{"--xds", xds[0], "--xds", xds[1], "--tls-server-name", "penstock", "--tls-ca",
		in("ca.crt"), "--tls-cert", in("envoy.crt"), "--tls-key", in("envoy.key")})
	answers(t, local(port), http.StatusOK)
	stream, err := dialTLS(t, others[0], dir, "envoy").NewStream(t.Context(),
		&grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, "/penstock.v1alpha1.Replica/Follow")
	if err == nil {
		err = stream.RecvMsg(&discoveryv3.DeltaDiscoveryResponse{})
	}
	if status.Code(err) != codes.Unavailable {
		t.Errorf("an Envoy at the port of peers: got %v, want Unavailable", err)
	}
}

// Envoys need a picker's IP address. For a host name, the printed command has a placeholder.
func TestCredentials_HostsAreAddressesOrNames(t *testing.T) {
	t.Parallel()
	out, err := penstock(t, "credentials", "--dir", filepath.Join(t.TempDir(), "credentials"), "--host",
		"cp.example.com", "--host", "192.0.2.2")
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{"--picker-address IP-OF-cp.example.com:9002 --picker-address 192.0.2.2:9002",
		"# Replace IP-OF-cp.example.com by its IP address", "--xds cp.example.com:18000"} {
		if !strings.Contains(out, want) {
			t.Errorf("got\n%s\nwant %q", out, want)
		}
	}
	dir := filepath.Join(t.TempDir(), "none")
	if out, err := penstock(t, "credentials", "--dir", dir, "--host", "bad host!"); err == nil ||
		!strings.Contains(out+err.Error(), `--host "bad host!": write an IP address`) {
		t.Errorf("an invalid host: got %v\n%s\nwant to write an IP address", err, out)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("files were made for an invalid host")
	}
}
