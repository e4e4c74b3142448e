package accesslog

import (
	"math"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	datav3 "github.com/envoyproxy/go-control-plane/envoy/data/accesslog/v3"
	aidatav3 "github.com/envoyproxy/go-control-plane/envoy/data/ai/v3"
	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/service/accesslog/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/penstock-project/penstock/picker/request"
)

func gated(change func(*datav3.HTTPAccessLogEntry)) *datav3.HTTPAccessLogEntry {
	e := logged("me.1", "10.0.0.1:80", 200, datav3.AccessLogType_DownstreamEnd)
	m := e.CommonProperties.Metadata
	m.FilterMetadata[gateNamespace] = &structpb.Struct{Fields: map[string]*structpb.Value{
		gateCaller: structpb.NewStringValue("ns/alice"),
	}}
	m.FilterMetadata["penstock"].Fields["pick"] = structpb.NewStringValue(
		PickText(150, 128, 23*time.Millisecond, "llama 3"))
	usage, _ := anypb.New(&aidatav3.TokenUsage{ExtractionStatus: aidatav3.TokenUsage_COMPLETE,
		InputTokens: wrapperspb.UInt64(160), OutputTokens: wrapperspb.UInt64(math.MaxUint64)})
	m.TypedFilterMetadata = map[string]*anypb.Any{"envoy.ai.token_usage": usage}
	e.CommonProperties.UpstreamCluster, e.CommonProperties.StreamId = "pool/ns/chat", "id"
	e.Request = &datav3.HTTPRequestProperties{Path: "/v1/chat/completions?x", RequestBodyBytes: 600}
	e.Response.ResponseHeaders = map[string]string{"content-type": "text/event-stream; charset=utf-8"}
	e.Response.ResponseBodyBytes = 900
	if change != nil {
		change(e)
	}
	return e
}

// An entry is Used at the request's end, and only if an authorization filter decided about the
// request. A denied request has no pool.
func TestUsed_RequestsThatAGateDecided(t *testing.T) {
	whole := Used{ID: "id", Caller: "ns/alice", Pool: "ns/pool", Cluster: "pool/ns/chat", Kind: request.ChatCompletions,
		Model: "llama 3", PromptTokens: 150, PromptCached: 128, GPU: 23 * time.Millisecond, Status: 200, Stream: true,
		Received: 600, Sent: 900, Accounted: true, Input: 160, Output: math.MaxUint64}
	edit := func(f func(*Used)) *Used { u := whole; f(&u); return &u }
	took := gated(nil).GetCommonProperties().GetDuration().AsDuration()
	unauthorized := &datav3.ResponseFlags{UnauthorizedDetails: &datav3.ResponseFlags_Unauthorized{}}
	for name, tt := range map[string]struct {
		change func(*datav3.HTTPAccessLogEntry)
		want   *Used
	}{
		"let in": {nil, &whole},
		"partly read": {func(e *datav3.HTTPAccessLogEntry) {
			usage, _ := anypb.New(&aidatav3.TokenUsage{ExtractionStatus: aidatav3.TokenUsage_PARTIAL,
				OutputTokens: wrapperspb.UInt64(5)})
			e.CommonProperties.Metadata.TypedFilterMetadata["envoy.ai.token_usage"] = usage
		}, edit(func(u *Used) { u.Accounted, u.Input, u.Output = false, 0, 0 })},
		"of no gate": {func(e *datav3.HTTPAccessLogEntry) {
			delete(e.CommonProperties.Metadata.FilterMetadata, gateNamespace)
		}, nil},
		"in flight": {func(e *datav3.HTTPAccessLogEntry) {
			e.CommonProperties.AccessLogType = datav3.AccessLogType_DownstreamPeriodic
		}, edit(func(u *Used) { u.Open = true })},
		"in flight, unknown": {func(e *datav3.HTTPAccessLogEntry) {
			e.CommonProperties.AccessLogType = datav3.AccessLogType_DownstreamPeriodic
			e.CommonProperties.StreamId = ""
		}, nil},
		"forbidden": {func(e *datav3.HTTPAccessLogEntry) {
			e.CommonProperties.ResponseFlags, e.Response.ResponseCode = unauthorized, wrapperspb.UInt32(403)
		}, &Used{ID: "id", Caller: "ns/alice", Denied: true, Status: 403}},
		"without a key": {func(e *datav3.HTTPAccessLogEntry) {
			delete(e.CommonProperties.Metadata.FilterMetadata, gateNamespace)
			e.CommonProperties.ResponseFlags, e.Response.ResponseCode = unauthorized, wrapperspb.UInt32(401)
			e.Response.ResponseHeaders["x-penstock-reason"] = "invalid_api_key"
		}, &Used{ID: "id", Denied: true, Status: 401}},
		"denied by a user's own service": {func(e *datav3.HTTPAccessLogEntry) {
			delete(e.CommonProperties.Metadata.FilterMetadata, gateNamespace)
			e.CommonProperties.ResponseFlags, e.Response.ResponseCode = unauthorized, wrapperspb.UInt32(401)
		}, nil},
		"without an answer of the gate": {func(e *datav3.HTTPAccessLogEntry) {
			e.CommonProperties.ResponseFlags, e.Response.ResponseCode = unauthorized, wrapperspb.UInt32(503)
		}, nil},
		"with an error of the gate": {func(e *datav3.HTTPAccessLogEntry) {
			delete(e.CommonProperties.Metadata.FilterMetadata, gateNamespace)
			e.CommonProperties.ResponseFlags, e.Response.ResponseCode = unauthorized, wrapperspb.UInt32(503)
			e.Response.ResponseCodeDetails, e.CommonProperties.RouteName = noAnswer, "chat"
		}, &Used{ID: "id", Unavailable: true, Status: 503, Route: "chat", Took: took}},
	} {
		var got []Used
		var leases []Entry
		server := New(Config{Sink: keep{&leases}, Usage: func(list []Used) { got = append(got, list...) }})
		_ = server.StreamAccessLogs(&stream{messages: []*accesslogv3.StreamAccessLogsMessage{
			{Identifier: &accesslogv3.StreamAccessLogsMessage_Identifier{LogName: UsageLog}},
			{LogEntries: &accesslogv3.StreamAccessLogsMessage_HttpLogs{
				HttpLogs: &accesslogv3.StreamAccessLogsMessage_HTTPAccessLogEntries{
					LogEntry: []*datav3.HTTPAccessLogEntry{gated(tt.change)},
				},
			}},
		}})
		var want []Used
		if tt.want != nil {
			want = []Used{*tt.want}
		}
		if diff := cmp.Diff(want, got); diff != "" || len(leases) > 0 {
			t.Errorf("%s: %d leases, want none; uses (-want +got):\n%s", name, len(leases), diff)
		}
	}
}

func TestPickText_IsValidUTF8AndBounded(t *testing.T) {
	for _, model := range []string{"", "llama", "a b c", "\xff\xfe", strings.Repeat("é", 500), "x\x00y"} {
		text := PickText(1<<40, -1, -time.Second, model)
		var u Used
		u.pick(text)
		if !utf8.ValidString(text) || len(text) > 300 || u.PromptCached != 0 || u.GPU != 0 ||
			!strings.HasPrefix(strings.ToValidUTF8(model, ""), u.Model) {
			t.Errorf("%q: got %q, read as %+v; want valid UTF-8 of at most 300 bytes, and the model's beginning",
				model, text, u)
		}
	}
}
