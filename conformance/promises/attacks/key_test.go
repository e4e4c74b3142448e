package attacks

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	datav3 "github.com/envoyproxy/go-control-plane/envoy/data/accesslog/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/service/accesslog/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/penstock-project/penstock/translator/model"
	"github.com/penstock-project/penstock/xds/identity"
	"github.com/penstock-project/penstock/xds/resource"
)

// thief has the key of another Gateway.
type thief struct {
	*site
	conn *grpc.ClientConn
	key  string
}

// call is the context of a call with the key, about a pool.
func (th thief) call(key, pool string) context.Context {
	ctx, cancel := context.WithTimeout(th.Context(), 10*time.Second)
	th.Cleanup(cancel)
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+key, "x-penstock-pool", pool)
}

// pick asks for a pick.
func (th thief) pick(key, pool string) codes.Code {
	s, err := extprocv3.NewExternalProcessorClient(th.conn).Process(th.call(key, pool))
	if err != nil {
		return status.Code(err)
	}
	// Its error is that the call has ended, for the reason that Recv returns.
	_ = s.Send(&extprocv3.ProcessingRequest{Request: &extprocv3.ProcessingRequest_RequestHeaders{RequestHeaders: &extprocv3.HttpHeaders{EndOfStream: true}}})
	_, err = s.Recv()
	return status.Code(err)
}

// lie reports 100 requests in flight at an endpoint of a pool that were never sent.
func (th thief) lie(pool, served string) {
	s, err := accesslogv3.NewAccessLogServiceClient(th.conn).StreamAccessLogs(th.call(th.key, ""))
	if err != nil {
		th.Fatal(err)
	}
	var entries []*datav3.HTTPAccessLogEntry
	for i := range 100 {
		ours, _ := structpb.NewStruct(map[string]any{"pool": pool, "lease": fmt.Sprint("gone.", i)})
		lb, _ := structpb.NewStruct(map[string]any{"x-gateway-destination-endpoint-served": served})
		entries = append(entries, &datav3.HTTPAccessLogEntry{CommonProperties: &datav3.AccessLogCommon{
			AccessLogType: datav3.AccessLogType_DownstreamPeriodic,
			Metadata:      &corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{"penstock": ours, "envoy.lb": lb}},
		}})
	}
	if err := s.Send(&accesslogv3.StreamAccessLogsMessage{LogEntries: &accesslogv3.StreamAccessLogsMessage_HttpLogs{
		HttpLogs: &accesslogv3.StreamAccessLogsMessage_HTTPAccessLogEntries{LogEntry: entries}}}); err != nil {
		th.Fatal(err)
	}
	_, _ = s.CloseAndRecv() // the server has read all; it ends the stream without a response
}

// steal reads the key of a Gateway as its Envoy does.
func (th thief) steal(gateway string, transport credentials.TransportCredentials) string {
	conn, err := grpc.NewClient(local(th.xds), grpc.WithTransportCredentials(transport))
	if err != nil {
		th.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	ctx, cancel := context.WithTimeout(th.Context(), 20*time.Second)
	defer cancel()
	s, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(ctx)
	if err != nil {
		th.Fatal(err)
	}
	_ = s.Send(&discoveryv3.DeltaDiscoveryRequest{Node: &corev3.Node{Id: "thief", Cluster: gateway}, TypeUrl: resource.Secret.URL(), ResourceNamesSubscribe: []string{model.OwnKey}})
	response, err := s.Recv()
	if err != nil || len(response.Resources) != 1 {
		th.Fatalf("%d secrets, %v", len(response.GetResources()), err)
	}
	var secret tlsv3.Secret
	if err := response.Resources[0].Resource.UnmarshalTo(&secret); err != nil {
		th.Fatal(err)
	}
	return string(secret.GetGenericSecret().GetSecret().GetInlineBytes()) + secret.GetGenericSecret().GetSecret().GetInlineString()
}

// The key of one Gateway opens no other Gateway's pool, and makes it neither full nor idle.
func TestPickerKey_StolenOneOpensNoOtherPool(t *testing.T) {
	s, in := secured(t)
	traffic := s.traffic()
	// The Gateway whose key is stolen has a pool of its own.
	s.write("thief.yaml", gatewayObject("thief", s.port())+poolObjects("bait", "/", []string{"thief"}, backend{"127.0.0.1", 9})+limitObject("chat"))
	roots, err := identity.Pool(in("ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	cert, err := tls.LoadX509KeyPair(in("envoy.crt"), in("envoy.key"))
	if err != nil {
		t.Fatal(err)
	}
	conn, err := grpc.NewClient(local(s.picker), grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{RootCAs: roots, ServerName: "penstock"})))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	th := thief{site: s, conn: conn}
	th.key = th.steal("default/thief", credentials.NewTLS(&tls.Config{RootCAs: roots, ServerName: "penstock", Certificates: []tls.Certificate{cert}}))
	s.eventually("the key opens its own pool", func() error {
		if code := th.pick(th.key, "default/bait"); code != codes.OK {
			return fmt.Errorf("%v", code)
		}
		return nil
	})
	for _, c := range []struct {
		what, key, pool string
		want            codes.Code
	}{
		{"another Gateway's pool", th.key, "default/chat", codes.PermissionDenied},
		{"another Gateway's name before the code", "default/gw" + strings.TrimPrefix(th.key, "default/thief"), "default/chat", codes.Unauthenticated},
		{"no key", "", "default/bait", codes.Unauthenticated},
	} {
		if code := th.pick(c.key, c.pool); code != c.want {
			t.Errorf("%s: %v, want %v", c.what, code, c.want)
		}
	}
	_, port, _ := net.SplitHostPort(s.server.Listener.Addr().String())
	for _, pool := range []string{"default/chat", "default/bait"} {
		th.lie(pool, "127.0.0.1:"+port)
	}
	for range 8 {
		if err := s.ask(http.MethodPost, "/v1/chat/completions", "{}"); err != nil {
			t.Error("after false reports: ", err)
		}
	}
	health := healthv1.NewHealthClient(conn)
	if _, err := health.Check(t.Context(), &healthv1.HealthCheckRequest{Service: strings.Repeat("x", 1<<10)}); status.Code(err) != codes.NotFound {
		t.Errorf("a health check: %v", err)
	}
	open, err := grpc.NewClient(local(s.picker), grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{RootCAs: roots, ServerName: "penstock"})))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = open.Close() })
	if _, err := healthv1.NewHealthClient(open).Check(t.Context(), &healthv1.HealthCheckRequest{Service: strings.Repeat("x", 16<<20)}); status.Code(err) != codes.Unavailable {
		t.Errorf("a health check of 16 MiB without a key: %v", status.Code(err))
	}
	traffic.end()
}
