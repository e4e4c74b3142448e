package identity_test

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/penstock-project/penstock/xds/admission"
	"github.com/penstock-project/penstock/xds/identity"
)

func TestPickerKey_DeniesCallsWithoutIt(t *testing.T) {
	ask := func(key string, exempt ...string) codes.Code {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		s := grpc.NewServer(
			grpc.InTapHandle(
				identity.WithKey(func(token string) string {
					return map[string]string{"new": "a/gw", "old": "a/gw"}[token]
				}, exempt...)))
		healthv1.RegisterHealthServer(s, health.NewServer())
		go func() { _ = s.Serve(l) }()
		defer s.Stop()
		conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		ctx := context.Background()
		if key != "" {
			ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+key)
		}
		_, unary := healthv1.NewHealthClient(conn).Check(ctx, &healthv1.HealthCheckRequest{})
		stream, err := healthv1.NewHealthClient(conn).Watch(ctx, &healthv1.HealthCheckRequest{})
		if err != nil {
			t.Fatal(err)
		}
		_, err = stream.Recv()
		if status.Code(err) != status.Code(unary) {
			t.Errorf("a stream returns %v, a call %v; want the same code", err, unary)
		}
		return status.Code(unary)
	}
	for key, want := range map[string]codes.Code{"new": codes.OK, "old": codes.OK, "other": codes.Unauthenticated,
		"": codes.Unauthenticated} {
		if got := ask(key); got != want {
			t.Errorf("key %q: %v, want %v", key, got, want)
		}
	}
	if got := ask("", "grpc.health.v1.Health"); got != codes.OK {
		t.Errorf("an exempt service is denied: %v, want %v", got, codes.OK)
	}
}

func TestPickerKey_NamesItsGatewayToHandlers(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	seen := make(chan string, 1)
	options := append(
		[]grpc.ServerOption{
			grpc.InTapHandle(
				identity.WithKey(func(token string) string { return map[string]string{"k": "a/gw"}[token] })),
		},
		grpc.StreamInterceptor(func(_ any, s grpc.ServerStream, _ *grpc.StreamServerInfo, _ grpc.StreamHandler) error {
			seen <- identity.Gateway(s.Context())
			return nil
		}))
	s := grpc.NewServer(options...)
	healthv1.RegisterHealthServer(s, health.NewServer())
	go func() { _ = s.Serve(l) }()
	defer s.Stop()
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx := metadata.AppendToOutgoingContext(context.Background(), "authorization", "Bearer k")
	if _, err := healthv1.NewHealthClient(conn).Watch(ctx, &healthv1.HealthCheckRequest{}); err != nil {
		t.Fatal(err)
	}
	if got := <-seen; got != "a/gw" {
		t.Errorf(`the call is of Gateway %q, want "a/gw"`, got)
	}
	if got := identity.Gateway(context.Background()); got != "" {
		t.Errorf("a call without a key is of Gateway %q, want none", got)
	}
}

// Health checks need no key, so their messages must be small.
func TestPickerKey_LargeHealthCheckIsDenied(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	options := append(
		[]grpc.ServerOption{
			grpc.InTapHandle(
				identity.WithKey(func(token string) string { return map[string]string{"k": "a/gw"}[token] },
					"grpc.health.v1.Health")),
		}, grpc.MaxRecvMsgSize(64<<20))
	s := grpc.NewServer(options...)
	healthv1.RegisterHealthServer(s, health.NewServer())
	go func() { _ = s.Serve(admission.Listen(l, admission.Config{Bytes: 64 << 10, Every: time.Hour})) }()
	defer s.Stop()
	for _, c := range []struct {
		key  string
		size int
		want codes.Code
	}{
		{"", 1 << 10, codes.NotFound}, // there is no such service
		{"", 1 << 20, codes.Unavailable},
		{"k", 1 << 20, codes.NotFound},
	} {
		conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		ctx := metadata.AppendToOutgoingContext(context.Background(), "authorization", "Bearer "+c.key)
		_, err = healthv1.NewHealthClient(conn).Check(ctx,
			&healthv1.HealthCheckRequest{Service: strings.Repeat("x", c.size)})
		if got := status.Code(err); got != c.want {
			t.Errorf("%d bytes with the key %q: %v, want %v", c.size, c.key, err, c.want)
		}
		_ = conn.Close()
	}
}
