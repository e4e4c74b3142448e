package identity_test

import (
	"context"
	"net"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/penstock-project/penstock/xds/identity"
)

func TestPickerKey_DeniesCallsWithoutIt(t *testing.T) {
	ask := func(key string, exempt ...string) codes.Code {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		s := grpc.NewServer(identity.WithKey(func() []string { return []string{"new", "old"} }, exempt...)...)
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
			t.Errorf("a stream returns %v, a call %v", err, unary)
		}
		return status.Code(unary)
	}
	for key, want := range map[string]codes.Code{"new": codes.OK, "old": codes.OK, "other": codes.Unauthenticated, "": codes.Unauthenticated} {
		if got := ask(key); got != want {
			t.Errorf("key %q: %v, want %v", key, got, want)
		}
	}
	if got := ask("", "grpc.health.v1.Health"); got != codes.OK {
		t.Errorf("an exempt service is denied: %v", got)
	}
}
