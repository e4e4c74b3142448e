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
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/penstock-project/penstock/discovery/objectid"
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
		TimeToLastUpstreamTxByte:  durationpb.New(10 * time.Millisecond),
		TimeToFirstUpstreamRxByte: durationpb.New(30 * time.Millisecond),
		CustomTags:                map[string]string{"first_body": "25000"},
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
		logged("", "10.0.0.1:80", 200, end), // no lease, so no picker picked for this request
		logged("me.1", "10.0.0.1:80", 200, datav3.AccessLogType_DownstreamPeriodic),
		// This type of entry is skipped.
		logged("me.1", "10.0.0.1:80", 200, datav3.AccessLogType_DownstreamStart),
		logged("me.1", "10.0.0.1:80", 404, end),
		logged("me.2", "10.0.0.1:80", 503, end),
		logged("me.3", "", 429, datav3.AccessLogType_NotSet),
		{},
	}
	if err := stream.Send(
		&accesslogv3.StreamAccessLogsMessage{LogEntries: &accesslogv3.StreamAccessLogsMessage_HttpLogs{
			HttpLogs: &accesslogv3.StreamAccessLogsMessage_HTTPAccessLogEntries{LogEntry: entries}}}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []struct {
		lease, served string
		status        int
		open          bool
	}{{"me.1", "10.0.0.1:80", 200, true}, {"me.1", "10.0.0.1:80", 404, false}, {"me.2", "10.0.0.1:80", 503, false},
		{"me.3", "", 429, false}} {
		e := Entry{Lease: want.lease, Gateway: "ns/gw", Pool: "ns/pool", Open: want.open, Served: want.served,
			Status: want.status, Sent: 10 * time.Millisecond, Headers: 30 * time.Millisecond,
			FirstByte: 35 * time.Millisecond}
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

// Of two concurrent attempts, the metadata names the later one's endpoint. The address is from the
// endpoint that responded, and counts.
func TestAccessLog_NamesTheServerThatHasAnswered(t *testing.T) {
	for name, tt := range map[string]struct {
		served, from string
		status       uint32
		want         string
	}{
		"the only one":              {"10.0.0.1:80", "10.0.0.1", 200, "10.0.0.1:80"},
		"the first of two":          {"10.0.0.2:80", "10.0.0.1", 200, "10.0.0.1:80"},
		"the first, before a hop":   {"envoy://hops/next", "10.0.0.1", 200, "10.0.0.1:80"},
		"a hop, without an address": {"envoy://hops/next", "", 200, "envoy://hops/next"},
		"none so far":               {"10.0.0.2:80", "10.0.0.1", 0, "10.0.0.2:80"},
		"none at all":               {"", "10.0.0.1", 200, ""},
		"over IPv6":                 {"[fd00::2]:80", "fd00::1", 200, "[fd00::1]:80"},
	} {
		logged := logged("me.1", tt.served, tt.status, datav3.AccessLogType_DownstreamPeriodic)
		if tt.from != "" {
			logged.CommonProperties.UpstreamRemoteAddress = &corev3.Address{Address: &corev3.Address_SocketAddress{
				SocketAddress: &corev3.SocketAddress{
					Address: tt.from, PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: 80},
				},
			}}
		}
		if e, ok := entry(logged); !ok || e.Served != tt.want {
			t.Errorf("%s: %q, want %q", name, e.Served, tt.want)
		}
	}
}

var began = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func attemptEntry(lease string, change func(*datav3.HTTPAccessLogEntry)) *datav3.HTTPAccessLogEntry {
	e := logged(lease, "", 404, datav3.AccessLogType_DownstreamEnd)
	e.CommonProperties.UpstreamCluster, e.CommonProperties.RouteName, e.CommonProperties.StartTime =
		"import/ns/chat/west", "route", timestamppb.New(began)
	e.CommonProperties.UpstreamRemoteAddress =
		&corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
			Address: "192.0.2.1", PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: 80},
		}}}
	e.Request = &datav3.HTTPRequestProperties{Authority: "chat.example", RequestId: "here"}
	e.Response.ResponseCodeDetails, e.Response.ResponseBodyBytes = "via_upstream", 7
	e.Response.ResponseHeaders = map[string]string{"x-request-id": "here"}
	if change != nil {
		change(e)
	}
	return e
}

func logTo(log string, entry *datav3.HTTPAccessLogEntry) (leases []Entry, attempts []Attempt) {
	server := New(Config{Sink: keep{&leases}, Gateway: func(context.Context) string { return "ns/gw" },
		Attempts: func(a Attempt) { attempts = append(attempts, a) }})
	_ = server.StreamAccessLogs(&stream{messages: []*accesslogv3.StreamAccessLogsMessage{
		{Identifier: &accesslogv3.StreamAccessLogsMessage_Identifier{LogName: log}},
		// Only the first message of a stream names the log.
		{LogEntries: &accesslogv3.StreamAccessLogsMessage_HttpLogs{
			HttpLogs: &accesslogv3.StreamAccessLogsMessage_HTTPAccessLogEntries{
				LogEntry: []*datav3.HTTPAccessLogEntry{entry},
			},
		}},
	}})
	return leases, attempts
}

// A request to an exporting cluster is an Attempt, with or without a lease. Leases count only in
// the logs of Gateways.
func TestAccessLog_ReportsRequestsToExportingClusters(t *testing.T) {
	want := Attempt{
		Gateway: "ns/gw", Cluster: "import/ns/chat/west", Route: "route", Request: "here", Began: began, Status: 404,
		Headers: 30 * time.Millisecond, FirstByte: 35 * time.Millisecond, Took: 40 * time.Millisecond, Bytes: 7,
		At: netip.MustParseAddrPort("192.0.2.1:80"), Host: "chat.example", Reached: true,
	}
	long := strings.Repeat("x", maxText+1)
	for name, tt := range map[string]struct {
		lease  string
		change func(*datav3.HTTPAccessLogEntry)
		want   func(*Attempt) // nil if the entry is no attempt
		none   bool           // the entry is in the log of a Gateway
	}{
		"one":       {want: func(*Attempt) {}},
		"of a pick": {lease: "me.1", want: func(a *Attempt) { a.Leased = true }},
		"another backend's": {
			change: func(e *datav3.HTTPAccessLogEntry) { e.CommonProperties.UpstreamCluster = "pool/ns/chat" },
			want:   func(a *Attempt) { a.Cluster = "pool/ns/chat" }, none: true,
		},
		"another ID there": {
			change: func(e *datav3.HTTPAccessLogEntry) { e.Response.ResponseHeaders["x-request-id"] = "there" },
			want:   func(a *Attempt) { a.There = "there" },
		},
		"declined": {
			change: func(e *datav3.HTTPAccessLogEntry) { e.Response.ResponseHeaders["penstock-peer-refused"] = "1" },
			want:   func(a *Attempt) { a.Declined = true },
		},
		"this gateway's own": {
			change: func(e *datav3.HTTPAccessLogEntry) { e.Response.ResponseCodeDetails = "route_not_found" },
			want:   func(a *Attempt) { a.Reached, a.Details = false, "route_not_found" },
		},
		"this gateway's own, with long details": {
			change: func(e *datav3.HTTPAccessLogEntry) { e.Response.ResponseCodeDetails = strings.Repeat("x", 10_000) },
			want:   func(a *Attempt) { a.Reached, a.Details = false, strings.Repeat("x", maxDetails) },
		},
		"of a member": {change: func(e *datav3.HTTPAccessLogEntry) {
			e.CommonProperties.Metadata.FilterMetadata["penstock"].Fields["member"] = structpb.NewStringValue(
				"ns/chat@west")
		}, want: func(a *Attempt) { a.Member = objectid.MustParseTarget("ns/chat@west") }},
		"behind a hop": {change: func(e *datav3.HTTPAccessLogEntry) {
			e.CommonProperties.UpstreamCluster, e.CommonProperties.RouteName = "", "hop.ns.import.chat@west"
		}, want: func(a *Attempt) { a.Cluster, a.Route = "", "hop.ns.import.chat@west" }},
		"one that goes on": {change: func(e *datav3.HTTPAccessLogEntry) {
			e.CommonProperties.AccessLogType = datav3.AccessLogType_DownstreamPeriodic
		}},
		"with a long cluster": {change: func(e *datav3.HTTPAccessLogEntry) {
			e.CommonProperties.UpstreamCluster = long
		}},
		"with a long host": {change: func(e *datav3.HTTPAccessLogEntry) { e.Request.Authority = long }},
		"with a long ID":   {change: func(e *datav3.HTTPAccessLogEntry) { e.Request.RequestId = long }},
		"with a long route": {change: func(e *datav3.HTTPAccessLogEntry) {
			e.CommonProperties.RouteName = "hop." + long
		}},
		"of no cluster": {change: func(e *datav3.HTTPAccessLogEntry) {
			e.CommonProperties.UpstreamCluster, e.CommonProperties.RouteName = "", ""
		}},
	} {
		for _, log := range []string{MembersLog, "ns/gw"} {
			leases, attempts := logTo(log, attemptEntry(tt.lease, tt.change))
			var all []Attempt
			if tt.want != nil && !(tt.none && log != MembersLog) {
				w := want
				tt.want(&w)
				all = []Attempt{w}
			}
			if d := cmp.Diff(all, attempts, cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })); d != "" {
				t.Errorf("%s, in the log %s (-want +got):\n%s", name, log, d)
			}
			if wanted := tt.lease != "" && log != MembersLog; (len(leases) > 0) != wanted {
				t.Errorf("%s, in the log %s: the lease counts: %v, want %v", name, log, len(leases) > 0, wanted)
			}
		}
	}
}

type keep struct{ to *[]Entry }

func (k keep) Log(e Entry) { *k.to = append(*k.to, e) }

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

func TestAccessLog_ReadsTheErrorThatEndsAStream(t *testing.T) {
	type fields map[string]any
	for _, tt := range []struct {
		want   int
		stream fields
	}{
		{0, fields{"code": 500}}, // an object whose code is no error
		{400, fields{"error": true, "code": 400}},
		{503, fields{"error": true, "code": 503}},
		{422, fields{"error": true, "code": "422"}},
		{500, fields{"error": true, "code": "server_error"}},
		{500, fields{"error": true, "kind": "api_error"}},
		{500, fields{"error": true, "kind": "InternalServerError"}},
		{429, fields{"error": true, "kind": "rate_limit_error"}},
		{429, fields{"error": true, "kind": "error overloaded_error"}},
		{400, fields{"error": true, "kind": "validation"}},
		{400, fields{"error": true, "kind": "request_too_large"}},
		{400, fields{"error": true, "code": "context_length_exceeded"}},
		{400, fields{"error": true, "code": "x", "kind": "BadRequestError"}},
		{400, fields{"error": true, "code": nil, "kind": "template_error"}},
		{0, fields{"error": true}}, // the client may have caused the error
		{0, fields{"error": true, "code": nil, "kind": "odd"}},
	} {
		want, stream := tt.want, tt.stream
		found, err := structpb.NewStruct(stream)
		if err != nil {
			t.Fatal(err)
		}
		l := logged("lease", "10.0.0.1:80", 200, datav3.AccessLogType_DownstreamEnd)
		l.CommonProperties.Metadata.FilterMetadata["penstock.stream"] = found
		if e, ok := entry(l); !ok || e.Error != want {
			t.Errorf("%v: got %d, want %d", stream, e.Error, want)
		}
	}
}

// A reset or a gRPC status shows that a response with status 200 is incomplete.
func TestAccessLog_ResponseThatFailsAfterItsHeaders(t *testing.T) {
	for name, tt := range map[string]struct {
		details, headers, trailers string
		cut                        bool
		error                      int
	}{
		"served": {details: "via_upstream"},
		"reset": {details: "upstream_reset_after_response_started{connection_termination}",
			cut: true},
		"the client has left":      {details: "downstream_remote_disconnect"},
		"a call that is served":    {details: "via_upstream", trailers: "0"},
		"one that fails":           {details: "via_upstream", trailers: "13", error: 500},
		"at once":                  {details: "via_upstream", headers: "14", error: 500},
		"by the client's argument": {details: "via_upstream", trailers: "3", error: 400},
		"for lack of room":         {details: "via_upstream", trailers: "8", error: 429},
		"with nonsense":            {details: "via_upstream", trailers: "x", error: 500},
	} {
		e := logged("me.1", "10.0.0.1:80", 200, datav3.AccessLogType_DownstreamEnd)
		e.Response.ResponseCodeDetails = tt.details
		set := func(to *map[string]string, status string) {
			if status != "" {
				*to = map[string]string{"grpc-status": status}
			}
		}
		set(&e.Response.ResponseHeaders, tt.headers)
		set(&e.Response.ResponseTrailers, tt.trailers)
		if got, ok := entry(e); !ok || got.Cut != tt.cut || got.Error != tt.error {
			t.Errorf("%s: got cut %t, error %d; want %t, %d", name, got.Cut, got.Error, tt.cut, tt.error)
		}
	}
}
