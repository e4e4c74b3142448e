package accesslog

import (
	"context"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	datav3 "github.com/envoyproxy/go-control-plane/envoy/data/accesslog/v3"
	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/service/accesslog/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

type sink chan Entry

func (s sink) Log(e Entry) { s <- e }

func logged(lease, served string, status uint32, kind datav3.AccessLogType) *datav3.HTTPAccessLogEntry {
	object := func(pairs map[string]any) *structpb.Struct { s, _ := structpb.NewStruct(pairs); return s }
	common := &datav3.AccessLogCommon{
		Metadata: &corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{
			"penstock": object(map[string]any{"pool": "ns/pool", "lease": lease}),
			"envoy.lb": object(map[string]any{"x-gateway-destination-endpoint-served": served}),
		}},
		TimeToFirstUpstreamRxByte: durationpb.New(30 * time.Millisecond),
		Duration:                  durationpb.New(40 * time.Millisecond),
		AccessLogType:             kind,
	}
	return &datav3.HTTPAccessLogEntry{CommonProperties: common,
		Response: &datav3.HTTPResponseProperties{ResponseCode: wrapperspb.UInt32(status)}}
}

func TestAccessLog_ReportsThatPickedRequestsGoOnAndEnd(t *testing.T) {
	received := make(sink, 9)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	New(Config{Sink: received, Gateway: func(context.Context) string { return "ns/gw" }}).Register(server)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	stream, err := accesslogv3.NewAccessLogServiceClient(conn).StreamAccessLogs(ctx)
	if err != nil {
		t.Fatal(err)
	}
	const end = datav3.AccessLogType_DownstreamEnd
	entries := []*datav3.HTTPAccessLogEntry{
		logged("", "10.0.0.1:80", 200, end), // no lease: it was not picked for
		logged("me.1", "10.0.0.1:80", 200, datav3.AccessLogType_DownstreamPeriodic),
		logged("me.1", "10.0.0.1:80", 200, datav3.AccessLogType_DownstreamStart), // skipped
		logged("me.1", "10.0.0.1:80", 404, end),
		logged("me.2", "10.0.0.1:80", 503, end),
		logged("me.3", "", 429, datav3.AccessLogType_NotSet),
		{},
	}
	if err := stream.Send(&accesslogv3.StreamAccessLogsMessage{LogEntries: &accesslogv3.StreamAccessLogsMessage_HttpLogs{
		HttpLogs: &accesslogv3.StreamAccessLogsMessage_HTTPAccessLogEntries{LogEntry: entries}}}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []struct {
		lease, served string
		status        int
		open          bool
	}{{"me.1", "10.0.0.1:80", 200, true}, {"me.1", "10.0.0.1:80", 404, false}, {"me.2", "10.0.0.1:80", 503, false}, {"me.3", "", 429, false}} {
		e := Entry{Lease: want.lease, Gateway: "ns/gw", Pool: "ns/pool", Open: want.open, Served: want.served, Status: want.status, FirstByte: 30 * time.Millisecond}
		if !want.open {
			e.Took = 40 * time.Millisecond
		}
		select {
		case got := <-received:
			if diff := cmp.Diff(e, got); diff != "" {
				t.Error(diff)
			}
		case <-ctx.Done():
			t.Fatal("an entry was lost")
		}
	}
}

func TestAccessLog_TakesAnswersOfParentsFromTheirOwnLogAlone(t *testing.T) {
	entries := func(details, cluster, host string) *accesslogv3.StreamAccessLogsMessage_HttpLogs {
		e := logged("me.1", "", 404, datav3.AccessLogType_DownstreamEnd)
		e.CommonProperties.UpstreamCluster, e.Response.ResponseCodeDetails, e.Request = cluster, details, &datav3.HTTPRequestProperties{Authority: host}
		e.CommonProperties.UpstreamRemoteAddress = &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
			Address: "192.0.2.1", PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: 80},
		}}}
		return &accesslogv3.StreamAccessLogsMessage_HttpLogs{HttpLogs: &accesslogv3.StreamAccessLogsMessage_HTTPAccessLogEntries{LogEntry: []*datav3.HTTPAccessLogEntry{e}}}
	}
	named := func(log string) *accesslogv3.StreamAccessLogsMessage {
		return &accesslogv3.StreamAccessLogsMessage{Identifier: &accesslogv3.StreamAccessLogsMessage_Identifier{LogName: log}, LogEntries: entries("via_upstream", "parent/ns/chat/west", "chat.example")}
	}
	var leases []Entry
	var answers []Answer
	server := New(Config{Sink: keep{&leases}, Gateway: func(context.Context) string { return "ns/gw" }, Answers: func(a Answer) { answers = append(answers, a) }})
	_ = server.StreamAccessLogs(&stream{messages: []*accesslogv3.StreamAccessLogsMessage{named("ns/gw"), {LogEntries: entries("via_upstream", "parent/ns/chat/west", "chat.example")}}})
	if len(leases) != 2 || len(answers) != 0 {
		t.Fatalf("of a Gateway's log: %v, %v", leases, answers)
	}
	_ = server.StreamAccessLogs(&stream{messages: []*accesslogv3.StreamAccessLogsMessage{
		named(ParentsLog),
		{LogEntries: entries("via_upstream", "parent/ns/chat/west", "chat.example")}, // later messages have no name
		{LogEntries: entries("route_not_found", "parent/ns/chat/west", "chat.example")},
		{LogEntries: entries("via_upstream", "", "chat.example")},
		{LogEntries: entries("via_upstream", strings.Repeat("x", maxText+1), "chat.example")},
		{LogEntries: entries("via_upstream", "parent/ns/chat/west", strings.Repeat("x", maxText+1))},
	}})
	want := Answer{Gateway: "ns/gw", Cluster: "parent/ns/chat/west", At: netip.MustParseAddrPort("192.0.2.1:80"), Host: "chat.example", Status: 404}
	if len(leases) != 2 || len(answers) != 2 || answers[0] != want || answers[1] != want {
		t.Errorf("of the log of parents: %v, %v", leases[2:], answers)
	}
}

// keep is a Sink.
type keep struct{ to *[]Entry }

func (k keep) Log(e Entry) { *k.to = append(*k.to, e) }

// stream has the messages of an Envoy.
type stream struct {
	grpc.ServerStream
	messages []*accesslogv3.StreamAccessLogsMessage
}

func (s *stream) Context() context.Context { return context.Background() }

func (s *stream) SendAndClose(*accesslogv3.StreamAccessLogsResponse) error { return nil }

func (s *stream) Recv() (*accesslogv3.StreamAccessLogsMessage, error) {
	if len(s.messages) == 0 {
		return nil, io.EOF
	}
	next := s.messages[0]
	s.messages = s.messages[1:]
	return next, nil
}
