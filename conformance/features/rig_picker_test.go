package features

import (
	"fmt"
	"net"
	"testing"

	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
)

func serving(t testing.TB, address string, p extprocv3.ExternalProcessorServer,
	options ...grpc.ServerOption) (port int, stop func()) {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(options...)
	extprocv3.RegisterExternalProcessorServer(server, p)
	go func() { _ = server.Serve(l) }()
	t.Cleanup(server.Stop)
	return l.Addr().(*net.TCPAddr).Port, server.Stop
}

// exporter starts another penstock as another cluster, from the same fixture. ${exporter} is its
// Gateway's port, ${exporter.picker} the port of its picker for other clusters.
func (s *site) exporter(fixture string, edits ...edit) *site {
	s.Helper()
	other := newSite(s.TB)
	s.ports["exporter"], s.ports["exporter.picker"] = other.ports["gateway"], s.Port()
	for name, port := range s.ports {
		if name != "gateway" {
			other.ports[name] = port
		}
	}
	other.flags = []string{"--picker", s.address("exporter.picker"), "--default-pool", "default/chat"}
	other.up(fixture, edits...)
	return other
}

// alone starts penstock picker from the same fixture, at the port ${NAME}.
func (s *site) alone(name, fixture string, edit edit, args ...string) *site {
	s.Helper()
	other := newSite(s.TB)
	s.ports[name] = s.Port()
	other.ports = s.ports
	other.write(fixture, edit)
	health := s.Port()
	other.run("picker", append([]string{
		"--bind-address", "127.0.0.1", "--metrics-port", "0", "--secure-serving=false",
		"--grpc-port", fmt.Sprint(s.ports[name]), "--grpc-health-port", fmt.Sprint(health),
	}, args...)...)
	conn, err := grpc.NewClient(fmt.Sprint("127.0.0.1:", health),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		s.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	s.Eventually("the picker is healthy", func() error {
		got, err := grpc_health_v1.NewHealthClient(conn).Check(s.Context(), &grpc_health_v1.HealthCheckRequest{})
		return because(got.GetStatus() == grpc_health_v1.HealthCheckResponse_SERVING, got, err)
	})
	return other
}
