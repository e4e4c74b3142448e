package server_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/status"

	"github.com/penstock-project/penstock/xds/resource"
	"github.com/penstock-project/penstock/xds/server"
	"github.com/penstock-project/penstock/xds/xdstest"
	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

type proxy struct {
	gateway   func(*corev3.Node) (string, error)
	permitted func() (time.Time, error)
}

func (p proxy) Gateway(n *corev3.Node) (string, error) {
	if p.gateway == nil {
		return xdstest.Gateway, nil
	}
	return p.gateway(n)
}

func (p proxy) Permitted(string) (time.Time, error) {
	if p.permitted == nil {
		return time.Time{}, nil
	}
	return p.permitted()
}

func as(p proxy) server.Authenticate {
	return func(context.Context) (server.Proxy, error) { return p, nil }
}

// send opens a stream and sends a message of size bytes. It returns the stream's error.
func send(t *testing.T, c *xdstest.Control, size int, options ...grpc.CallOption) error {
	t.Helper()
	options = append(options, grpc.MaxCallSendMsgSize(64<<20))
	s, err := discoveryv3.NewAggregatedDiscoveryServiceClient(dial(t, c)).
		DeltaAggregatedResources(t.Context(), options...)
	if err != nil {
		t.Fatal(err)
	}
	_ = s.Send(&discoveryv3.DeltaDiscoveryRequest{
		Node: &corev3.Node{Id: "envoy", Cluster: xdstest.Gateway}, TypeUrl: resource.Endpoints.URL(),
		ResourceNamesSubscribe: []string{"cluster-0"}, ResourceNamesUnsubscribe: []string{strings.Repeat("x", size)},
	})
	_, err = s.Recv()
	return err
}

func TestAuthenticate_NoMessageIsReadWithoutCredential(t *testing.T) {
	c := xdstest.Serve(t,
		server.Config{Authenticate: func(context.Context) (server.Proxy, error) {
			return nil, errors.New("no credential")
		}})
	if err := send(t, c, 32<<20); status.Code(err) != codes.PermissionDenied {
		t.Errorf("got %v, want PermissionDenied before the message is read", err)
	}
}

func TestADS_MessageSizeIsBounded(t *testing.T) {
	c := xdstest.Serve(t, server.Config{})
	c.Commit([]*resource.Resource{xdstest.Endpoints(t, "cluster-0", 1)})
	for name, options := range map[string][]grpc.CallOption{
		"as it is": nil, "compressed": {grpc.UseCompressor(gzip.Name)},
	} {
		if err := send(t, c, 15<<20, options...); err != nil {
			t.Errorf("15 MiB %s: got %v, want no error", name, err)
		}
		if err := send(t, c, 16<<20, options...); status.Code(err) != codes.ResourceExhausted {
			t.Errorf("more than 16 MiB %s: got %v, want ResourceExhausted", name, err)
		}
	}
}

func TestADS_StreamsOfAConnectionAreBounded(t *testing.T) {
	c := xdstest.Serve(t, server.Config{})
	bounded := grpc.NewServer(server.Options()...)
	c.Server.Register(bounded)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = bounded.Serve(l) }()
	t.Cleanup(bounded.Stop)
	conn := dial(t, &xdstest.Control{Address: l.Addr().String()})
	for i := range 16 {
		if _, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).
			DeltaAggregatedResources(t.Context()); err != nil {
			t.Fatalf("stream %d: got %v, want no error", i, err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	s, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(ctx)
	if err == nil {
		_, err = s.Recv()
	}
	if err == nil {
		t.Error("a connection has 17 streams")
	}
}

func TestADS_StreamWithoutMessageEnds(t *testing.T) {
	c := xdstest.Serve(t, server.Config{FirstMessage: 10 * time.Millisecond})
	s, err := discoveryv3.NewAggregatedDiscoveryServiceClient(dial(t, c)).DeltaAggregatedResources(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Recv(); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("got %v, want DeadlineExceeded", err)
	}
}

func TestAuthenticate_StreamEndsWhenCredentialExpires(t *testing.T) {
	var checks atomic.Int32
	c := xdstest.Serve(t, server.Config{Authenticate: as(proxy{permitted: func() (time.Time, error) {
		if checks.Add(1) > 2 {
			return time.Time{}, errors.New("the token has expired")
		}
		return time.Now().Add(10 * time.Millisecond), nil
	}})})
	c.Commit([]*resource.Resource{xdstest.Endpoints(t, "cluster-0", 1)})
	p := connect(t, dial(t, c), "envoy")
	if _, err := p.stream.Recv(); status.Code(err) != codes.PermissionDenied ||
		!strings.Contains(err.Error(), "has expired") {
		t.Errorf("got %v, want PermissionDenied: the token has expired", err)
	}
}

func TestADS_LogTextIsBounded(t *testing.T) {
	var log lines
	c := xdstest.Serve(t, server.Config{Log: slog.New(slog.NewJSONHandler(&log, nil))})
	c.Commit([]*resource.Resource{xdstest.Endpoints(t, "cluster-0", 1)})
	long := strings.Repeat("x", 1<<20)
	for _, node := range []*corev3.Node{{Id: long, Cluster: xdstest.Gateway}, {Id: "envoy", Cluster: long}} {
		s, err := discoveryv3.NewAggregatedDiscoveryServiceClient(dial(t, c)).DeltaAggregatedResources(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Send(&discoveryv3.DeltaDiscoveryRequest{
			Node: node, TypeUrl: resource.Endpoints.URL(),
		}); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Recv(); status.Code(err) != codes.PermissionDenied || len(err.Error()) > 1000 {
			t.Errorf("got %v, an error of %d bytes; want PermissionDenied in at most 1000",
				status.Code(err), len(err.Error()))
		}
	}
	p := subscribe(t, dial(t, c), xdstest.Gateway, "envoy")
	p.send(&discoveryv3.DeltaDiscoveryRequest{ResponseNonce: p.receive().GetNonce(),
		ErrorDetail: &statuspb.Status{Message: long}})
	poll.Until(t, "the NACK is logged", func() bool { return strings.Contains(log.text(), "NACK received") })
	if n := len(log.text()); n > 8<<10 {
		t.Errorf("the log has %d bytes, want at most %d", n, 8<<10)
	}
}

func TestADS_StreamOfUnknownGatewayEndsWithItsPermission(t *testing.T) {
	var ended atomic.Bool
	c := xdstest.Serve(t, server.Config{Authenticate: as(proxy{
		gateway: func(*corev3.Node) (string, error) { return "default/none", nil },
		permitted: func() (time.Time, error) {
			if ended.Load() {
				return time.Time{}, errors.New("the token has left the file")
			}
			return time.Now().Add(10 * time.Millisecond), nil
		},
	})})
	end := make(chan error)
	go func() { end <- send(t, c, 0) }()
	poll.Until(t, "it waits", func() bool {
		proxies := c.Server.Proxies()
		return len(proxies) == 1 && proxies[0].Waiting && !proxies[0].InSync
	})
	ended.Store(true)
	select {
	case err := <-end:
		if status.Code(err) != codes.PermissionDenied {
			t.Errorf("got %v, want PermissionDenied", err)
		}
	case <-time.After(10 * time.Second):
		t.Error("the stream goes on")
	}
}
