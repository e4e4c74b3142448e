package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// grpcServer answers each message of every method with the name, a colon and the message.
func grpcServer(t *testing.T, name string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer(grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		for {
			var in wrapperspb.StringValue
			if err := stream.RecvMsg(&in); errors.Is(err, io.EOF) {
				return nil
			} else if err != nil {
				return err
			}
			if err := stream.SendMsg(wrapperspb.String(name + ": " + in.Value)); err != nil {
				return err
			}
		}
	}))
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Serve(l)
	}()
	t.Cleanup(func() {
		s.Stop()
		<-done
	})
	return l.Addr().String()
}

func call(ctx context.Context, conn *grpc.ClientConn, method string) string {
	var out wrapperspb.StringValue
	if err := conn.Invoke(ctx, method, wrapperspb.String("hello"), &out); err != nil {
		return status.Code(err).String()
	}
	return out.Value
}

func serviceYAML(name, address string) string {
	host, port, _ := net.SplitHostPort(address)
	return fmt.Sprintf(`apiVersion: v1
kind: Service
metadata: {name: %[1]s}
spec:
  ports: [{name: p, port: 80, targetPort: %[3]s}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: %[1]s-1, labels: {kubernetes.io/service-name: %[1]s}}
addressType: IPv4
ports: [{name: p, port: %[3]s}]
endpoints: [{addresses: [%[2]s]}]
---
`, name, host, port)
}

func TestGRPCRoute_MatchesServiceMethodAndMetadataAndStreamsThroughAPool(t *testing.T) {
	t.Parallel()
	port := freePort(t)
	s := up(t, map[string]string{
		"gateway.yaml":  gatewayYAML("gw", port),
		"services.yaml": serviceYAML("one", grpcServer(t, "one")) + serviceYAML("two", grpcServer(t, "two")),
		"pool.yaml":     strings.Replace(poolYAML("llm"), "spec:", "spec:\n  appProtocol: kubernetes.io/h2c", 1),
		"servers.yaml":  serversYAML("llm", grpcServer(t, "pod")),
		"route.yaml": `apiVersion: gateway.networking.k8s.io/v1
kind: GRPCRoute
metadata: {name: echo}
spec:
  parentRefs: [{name: gw}]
  rules:
  - matches: [{method: {service: echo.Echo, method: Greet}}]
    backendRefs: [{name: one, port: 80}]
  - matches: [{method: {service: echo.Echo, method: Greet}, headers: [{name: team, value: b}]}, {method: {method: Shout}}]
    backendRefs: [{name: two, port: 80}]
  - matches: [{method: {type: RegularExpression, service: "echo[.].*", method: "L.*"}}]
    backendRefs: [{name: missing, port: 80}]
  - matches: [{method: {service: llm.Chat}}]
    backendRefs: [` + toPool("llm") + `]
`,
	})
	conn, err := grpc.NewClient(fmt.Sprintf("127.0.0.1:%d", port),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	team := metadata.AppendToOutgoingContext(t.Context(), "team", "b")
	for _, c := range []struct {
		ctx          context.Context
		method, want string
	}{
		{t.Context(), "/echo.Echo/Greet", "one: hello"},
		{team, "/echo.Echo/Greet", "two: hello"}, // the rule with more header matches has precedence
		{t.Context(), "/any.Service/Shout", "two: hello"},
		{t.Context(), "/echo.Echo/List", "Unavailable"},
		{t.Context(), "/echo.Echo/Unknown", "Unimplemented"},
		{t.Context(), "/llm.Chat/Complete", "pod: hello"},
	} {
		if got := call(c.ctx, conn, c.method); got != c.want {
			t.Errorf("%s: %s, want %s", c.method, got, c.want)
		}
	}

	// A bidirectional stream: Envoy must call the picker before the request ends.
	stream, err := conn.NewStream(t.Context(), &grpc.StreamDesc{ClientStreams: true, ServerStreams: true},
		"/llm.Chat/Talk")
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		var got wrapperspb.StringValue
		if err := stream.SendMsg(wrapperspb.String(fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
		if err := stream.RecvMsg(&got); err != nil || got.Value != fmt.Sprintf("pod: %d", i) {
			t.Fatalf("message %d: %q %v, want %q", i, got.Value, err, fmt.Sprintf("pod: %d", i))
		}
		if i == 0 { // a change of another rule does not reset the stream
			s.write("services.yaml", serviceYAML("one", grpcServer(t, "new")))
			eventually(t, "the other backend is in force", func() error {
				if got := call(t.Context(), conn, "/echo.Echo/Greet"); got != "new: hello" {
					return errors.New(got)
				}
				return nil
			})
		}
	}
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if err := stream.RecvMsg(new(wrapperspb.StringValue)); !errors.Is(err, io.EOF) {
		t.Errorf("the stream ended with %v, want %v", err, io.EOF)
	}
}
