package attacks

import (
	"crypto/tls"
	"errors"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/penstock-project/penstock/xds/identity"
)

// secured starts a site whose control plane and Envoy authenticate each other. in returns the paths
// of their credentials.
func secured(t *testing.T) (s *site, in func(name string) string) {
	t.Helper()
	s = prepare(t, nil)
	serve, attach, in := s.credentials()
	s.serve(serve...)
	s.attach(attach...)
	s.Eventually("the Gateway serves", func() error { return s.ask("GET", "/v1/models", "") })
	return s, in
}

// credentials makes credentials for a control plane and an Envoy. It returns the flags for them,
// and a function that returns a file's path.
func (s *site) credentials() (serve, attach []string, in func(name string) string) {
	s.Helper()
	in = func(name string) string { return filepath.Join(s.dir, "credentials", name) }
	if out, err := exec.Command(binaries.penstock, "credentials", "--dir", in(""), "--host", "127.0.0.1").
		CombinedOutput(); err != nil {
		s.Fatalf("%v\n%s", err, out)
	}
	s.ads = local(s.xds)
	return []string{"--xds", s.ads, "--xds-cert", in("penstock.crt"), "--xds-key", in("penstock.key"),
			"--xds-client-ca", in("ca.crt")},
		[]string{"--tls-server-name", "penstock", "--tls-ca", in("ca.crt"), "--tls-cert", in("envoy.crt"), "--tls-key",
			in("envoy.key")}, in
}

func (s *site) adds() {
	s.Helper()
	s.Write("added.yaml", `apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: added}
spec:
  parentRefs: [{name: gw}]
  rules: [{matches: [{path: {value: /added}}], backendRefs: [{group: inference.networking.k8s.io, kind: InferencePool, name: chat}]}]
`)
	s.Eventually("Envoy has the route", func() error {
		if !strings.Contains(s.envoyPage("/config_dump"), "HTTPRoute/default/added") {
			return errors.New("it does not")
		}
		return nil
	})
}

var errOpen = errors.New("too many are open")

func TestXDSCredentials_IdleConnectionsLockOutNoEnvoy(t *testing.T) {
	s, _ := secured(t)
	traffic := s.traffic()
	attacker := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}} // acts as another machine
	conns, err := Idle(t.Context(), attacker, local(s.xds), 500)
	for _, c := range conns {
		defer func() { _ = c.Close() }()
	}
	if err != nil {
		t.Fatal(err)
	}
	s.Eventually("most are closed", func() error {
		if n := Open(conns); n > 64 {
			return errOpen
		}
		return nil
	})
	s.adds()
	s.Eventually("all are closed", func() error {
		if Open(conns) > 0 {
			return errOpen
		}
		return nil
	})
	traffic.end()
}

func TestXDSCredentials_OtherClientsReadNothing(t *testing.T) {
	s, in := secured(t)
	traffic := s.traffic()
	roots, err := identity.Pool(nil, in("ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	before, peak := s.rss(s.penstock), s.peak(s.penstock)
	other := filepath.Join(s.dir, "other")
	if out, err := exec.Command(binaries.penstock, "credentials", "--dir", other, "--host", "127.0.0.1").
		CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cert, err := tls.LoadX509KeyPair(filepath.Join(other, "envoy.crt"), filepath.Join(other, "envoy.key"))
	if err != nil {
		t.Fatal(err)
	}
	for name, cfg := range map[string]*tls.Config{
		"no certificate": {RootCAs: roots, ServerName: "penstock"},
		"another CA":     {RootCAs: roots, ServerName: "penstock", Certificates: []tls.Certificate{cert}},
	} {
		ends, err := Flood(t.Context(), local(s.xds), credentials.NewTLS(cfg), 50, 32<<20)
		if err != nil || ends["<nil>"] > 0 {
			t.Errorf("%s: got ends %v, %v, want none without an error", name, ends, err)
		}
		conn, err := grpc.NewClient(local(s.xds), grpc.WithTransportCredentials(credentials.NewTLS(cfg)))
		if err != nil {
			t.Fatal(err)
		}
		if err := JunkTokens(t.Context(), conn, 20); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		_ = conn.Close()
	}
	if most := peak(); most > before+64 {
		t.Errorf("penstock had %.0f MiB before, and %.0f MiB at the peak, want at most %.0f", before, most, before+64)
	}
	traffic.end()
}

// An Envoy with a new certificate connects again once its connection's certificate has expired.
// Otherwise Envoy opens stream after stream on the old connection, and each is denied.
func TestXDSCredentials_ExpiredOnConnectionIsReplaced(t *testing.T) {
	s := prepare(t, nil)
	in := func(name string) string { return filepath.Join(s.dir, "credentials", name) }
	issue := func(life string) {
		t.Helper()
		if out, err := exec.Command(binaries.penstock, "credentials", "--dir", in(""), "--host", "127.0.0.1", "--life",
			life).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	issue("15s")
	s.ads = local(s.xds)
	s.serve("--xds", s.ads, "--xds-cert", in("penstock.crt"), "--xds-key", in("penstock.key"), "--xds-client-ca",
		in("ca.crt"))
	s.attach("--tls-server-name", "penstock", "--tls-ca", in("ca.crt"), "--tls-cert", in("envoy.crt"), "--tls-key",
		in("envoy.key"), "--secrets", in("secrets"))
	s.Eventually("the Gateway serves", func() error { return s.ask("GET", "/v1/models", "") })
	issue("1h")
	s.Eventually("the certificate of the connection has expired", func() error {
		if !strings.Contains(s.whole("penstock"), "the client's certificate expired at") {
			return errors.New("nothing is logged about it")
		}
		return nil
	})
	s.adds()
	if n := strings.Count(s.whole("penstock"), "proxy connected"); n > 4 {
		t.Errorf("Envoy has connected %d times, want at most 4", n)
	}
}
