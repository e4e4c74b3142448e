package picker

import (
	"fmt"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	filterv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

// gatewayCall is a call from a gateway that Penstock does not configure. The endpoint first (a
// constant of the tests) serves its request.
type gatewayCall struct {
	extprocv3.ExternalProcessor_ProcessClient
	t *testing.T
}

func (c gatewayCall) begin(stream bool, responseMode filterv3.ProcessingMode_BodySendMode) {
	c.t.Helper()
	headers := headerMessage(nil, ":path", "/v1/chat/completions", "x-request-id", "one")
	headers.GetRequestHeaders().EndOfStream = false
	headers.ProtocolConfig = &extprocv3.ProtocolConfiguration{
		RequestBodyMode: filterv3.ProcessingMode_BUFFERED, ResponseBodyMode: responseMode,
	}
	exchange(c.t, c, headers)
	body := fmt.Sprintf(`{"stream": %t, "model": "m", "messages": [{"role": "user", "content": %q}]}`, stream,
		strings.Repeat("word ", 1000))
	exchange(c.t, c, &extprocv3.ProcessingRequest{Request: &extprocv3.ProcessingRequest_RequestBody{
		RequestBody: &extprocv3.HttpBody{Body: []byte(body), EndOfStream: true}}})
}

func (c gatewayCall) responseHeaders(contentType string) {
	c.t.Helper()
	served, _ := structpb.NewStruct(map[string]any{"x-gateway-destination-endpoint-served": first})
	exchange(c.t, c, &extprocv3.ProcessingRequest{
		Request: &extprocv3.ProcessingRequest_ResponseHeaders{ResponseHeaders: &extprocv3.HttpHeaders{
			Headers: &corev3.HeaderMap{Headers: []*corev3.HeaderValue{
				{Key: ":status", RawValue: []byte("200")}, {Key: "content-type", RawValue: []byte(contentType)},
			}}}},
		MetadataContext: &corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{"envoy.lb": served}},
	})
}

func (c gatewayCall) responseBody() {
	c.t.Helper()
	exchange(c.t, c, &extprocv3.ProcessingRequest{Request: &extprocv3.ProcessingRequest_ResponseBody{
		ResponseBody: &extprocv3.HttpBody{Body: []byte("data: {}\n\n")}}})
}

// For a gateway that Penstock does not configure, the first body message counts as the first token.
// Response headers do not count, because servers send them before they read the prompt.
func TestFirstToken_BehindAnotherGatewayTheBodyCounts(t *testing.T) {
	const events, object = "text/event-stream; charset=utf-8", "application/json"
	for _, tt := range []struct {
		name        string
		stream      bool
		mode        filterv3.ProcessingMode_BodySendMode
		contentType string
		// headers and body are true if the prompt still counts as unread after the response's
		// headers, and after its first body message. learns is true if the picker learns a rate.
		headers, body, learns bool
	}{
		{"a stream", true, filterv3.ProcessingMode_STREAMED, events, true, false, true},
		{"a stream whose body is not sent here", true, filterv3.ProcessingMode_NONE, events, true, true, false},
		{"no stream", false, filterv3.ProcessingMode_STREAMED, object, false, false, false},
		{"no stream, although asked for", true, filterv3.ProcessingMode_STREAMED, object, false, false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := runPicker(t, Config{})
			_, address := servePicker(t, p)
			setPools(t, p, Pool{ID: poolID("ns/pool"), Default: true, Body: BodyBuffered, Endpoints: specs(first)})
			e, conn := &p.pool("ns/pool").snapshot.Endpoints[0], dialPicker(t, address)
			unread := func(when string, want bool) {
				t.Helper()
				if s := e.State(); (s.Unread > 0) != want {
					t.Errorf("%s: %d tokens unread, want some: %t", when, s.Unread, want)
				}
			}
			for range 10 {
				stream, cancel := call(t, conn)
				c := gatewayCall{stream, t}
				c.begin(tt.stream, tt.mode)
				unread("at first", true)
				if s := e.State(); (s.Confirmed > 0) != (tt.stream && tt.mode == filterv3.ProcessingMode_STREAMED) {
					t.Errorf("%d tokens are confirmed to wait, want some: %t",
						s.Confirmed, tt.stream && tt.mode == filterv3.ProcessingMode_STREAMED)
				}
				c.responseHeaders(tt.contentType)
				unread("after the headers", tt.headers)
				if tt.mode == filterv3.ProcessingMode_STREAMED {
					c.responseBody()
				}
				unread("after the body", tt.body)
				outcome := p.Picks(Picks{Last: 1})[0].Outcome
				if outcome.Ended || outcome.Headers <= 0 ||
					(outcome.Begun > outcome.Headers) != (tt.mode == filterv3.ProcessingMode_STREAMED) {
					t.Errorf("in flight: got %+v, want headers, and a later first byte only where the body is streamed",
						outcome)
				}
				cancel()
				poll.Until(t, "the end", func() bool { return e.State().InFlight == 0 })
				if after := p.Picks(Picks{Last: 1})[0].Outcome; !after.Ended ||
					after.Took <= max(after.Headers, after.Begun) || after.Begun != outcome.Begun {
					t.Errorf("at the end: got %+v, want ended after its headers and first byte, both unchanged", after)
				}
			}
			unread("at the end", false)
			if served, failed, _ := e.Load().Totals(); served != 10 || failed != 0 {
				t.Errorf("%d served, %d failed, want 10 and 0", served, failed)
			}
			if state := e.State(); (state.Latency != nil) != tt.learns {
				t.Errorf("learned %+v, want a latency: %t", state, tt.learns)
			}
		})
	}
}
