package attacks

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/penstock-project/penstock/xds/identity"
)

func TestPickerKey_StolenOneOpensNoOtherPool(t *testing.T) {
	s, in := secured(t)
	traffic := s.traffic()
	// The Gateway with the stolen key has its own pool.
	s.Write("thief.yaml", gatewayObject("thief", s.Port())+
		poolObjects("bait", "/", []string{"thief"}, backend{"127.0.0.1", 9})+limitObject("chat"))
	roots, err := identity.Pool(nil, in("ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	cert, err := tls.LoadX509KeyPair(in("envoy.crt"), in("envoy.key"))
	if err != nil {
		t.Fatal(err)
	}
	conn, err := grpc.NewClient(local(s.picker),
		grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{RootCAs: roots, ServerName: "penstock"})))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	ads, err := grpc.NewClient(local(s.xds),
		grpc.WithTransportCredentials(
			credentials.NewTLS(&tls.Config{RootCAs: roots, ServerName: "penstock",
				Certificates: []tls.Certificate{cert}})))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ads.Close() })
	key, err := StealKey(t.Context(), ads, "default/thief")
	if err != nil {
		t.Fatal(err)
	}
	s.Eventually("the key opens its own pool", func() error {
		if code := Pick(t.Context(), conn, key, "default/bait"); code != codes.OK {
			return fmt.Errorf("a pick with the key: got %v, want OK", code)
		}
		return nil
	})
	for _, c := range []struct {
		what, key, pool string
		want            codes.Code
	}{
		{"another Gateway's pool", key, "default/chat", codes.PermissionDenied},
		{"another Gateway's name before the code", "default/gw" + strings.TrimPrefix(key, "default/thief"),
			"default/chat", codes.Unauthenticated},
		{"no key", "", "default/bait", codes.Unauthenticated},
	} {
		if code := Pick(t.Context(), conn, c.key, c.pool); code != c.want {
			t.Errorf("%s: %v, want %v", c.what, code, c.want)
		}
	}
	_, port, _ := net.SplitHostPort(s.server.Listener.Addr().String())
	for _, pool := range []string{"default/chat", "default/bait"} {
		if err := ReportPhantoms(t.Context(), conn, key, pool, "127.0.0.1:"+port); err != nil {
			t.Error(err)
		}
	}
	for range 8 {
		if err := s.ask(http.MethodPost, "/v1/chat/completions", "{}"); err != nil {
			t.Error("after false reports: ", err)
		}
	}
	health := healthv1.NewHealthClient(conn)
	if _, err := health.Check(t.Context(), &healthv1.HealthCheckRequest{
		Service: strings.Repeat("x", 1<<10),
	}); status.Code(err) != codes.NotFound {
		t.Errorf("a health check of an unknown service: got %v, want NotFound", err)
	}
	open, err := grpc.NewClient(local(s.picker),
		grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{RootCAs: roots, ServerName: "penstock"})))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = open.Close() })
	if _, err := healthv1.NewHealthClient(open).Check(t.Context(),
		&healthv1.HealthCheckRequest{Service: strings.Repeat("x", 16<<20)}); status.Code(err) != codes.Unavailable {
		t.Errorf("a health check of 16 MiB without a key: got %v, want Unavailable", status.Code(err))
	}
	traffic.end()
}
