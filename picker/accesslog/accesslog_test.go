package accesslog

import (
	"context"
	"net"
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
