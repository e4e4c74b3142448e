package extproc

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	filterv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
)

// pooled cuts data into buffers of n bytes, like HTTP/2 frames. The pool counts the buffers that
// are not freed.
func pooled(data []byte, n int) (mem.BufferSlice, *countingPool) {
	pool := &countingPool{}
	var bufs mem.BufferSlice
	for part := range slices.Chunk(data, n) {
		pool.out++
		b := make([]byte, len(part), 4096) // gRPC pools only buffers above a threshold
		copy(b, part)
		bufs = append(bufs, mem.NewBuffer(&b, pool))
	}
	return bufs, pool
}

type countingPool struct{ out int }

func (p *countingPool) Get(n int) *[]byte { b := make([]byte, n); return &b }

func (p *countingPool) Put(b *[]byte) {
	p.out--
	clear((*b)[:cap(*b)]) // makes a use after free visible
}

// lookedUp has all headers with an index in Message.named, and x-other, which has none.
var lookedUp = []string{":path", ":status", "upgrade", "cookie", "content-type", "content-length", "x-request-id",
	"traceparent", "x-session-id", "x-session-token",
	"x-envoy-max-retries", "x-gateway-model-name", "x-llm-d-slo-ttft-ms", "x-llm-d-slo-tpot-ms", "x-slo-ttft-ms",
	"x-slo-tpot-ms", "x-other"}

// view has the fields in which Message must equal a message of the generated code.
type view struct {
	Kind                      Kind
	End, Observe              bool
	Body                      string
	RequestMode, ResponseMode Mode
	Headers                   map[string]string // values of lookedUp's headers
	Subset                    []string
	SubsetSet                 bool
	Served                    string
}

func ours(m *Message) view {
	v := view{Kind: m.Kind, End: m.EndOfStream, Observe: m.Observe, Body: string(m.Body.Materialize()),
		RequestMode: m.RequestMode, ResponseMode: m.ResponseMode,
		Headers: map[string]string{}, Served: string(m.Served(namespaceLB))}
	v.Subset, v.SubsetSet = m.Subset(namespaceSubset)
	for _, name := range lookedUp {
		if value := m.Header(name); value != nil {
			v.Headers[name] = string(value)
		}
	}
	return v
}

func theirs(p *extprocv3.ProcessingRequest) view {
	v := view{RequestMode: ModeUnknown, ResponseMode: ModeUnknown, Observe: p.ObservabilityMode,
		Headers: map[string]string{}}
	headers := func(h *corev3.HeaderMap) {
		for _, e := range slices.Backward(h.GetHeaders()) {
			switch {
			case !slices.Contains(lookedUp, e.GetKey()):
			case len(e.GetRawValue()) > 0:
				v.Headers[e.GetKey()] = string(e.GetRawValue())
			default:
				v.Headers[e.GetKey()] = e.GetValue()
			}
		}
	}
	body := func(kind Kind, b *extprocv3.HttpBody) {
		v.Kind, v.Body, v.End = kind, string(b.GetBody()), b.GetEndOfStream() || b.GetEndOfStreamWithoutMessage()
	}
	switch r := p.Request.(type) {
	case *extprocv3.ProcessingRequest_RequestHeaders:
		v.Kind, v.End = RequestHeaders, r.RequestHeaders.GetEndOfStream()
		headers(r.RequestHeaders.GetHeaders())
	case *extprocv3.ProcessingRequest_ResponseHeaders:
		v.Kind, v.End = ResponseHeaders, r.ResponseHeaders.GetEndOfStream()
		headers(r.ResponseHeaders.GetHeaders())
	case *extprocv3.ProcessingRequest_RequestBody:
		body(RequestBody, r.RequestBody)
	case *extprocv3.ProcessingRequest_ResponseBody:
		body(ResponseBody, r.ResponseBody)
	case *extprocv3.ProcessingRequest_RequestTrailers:
		v.Kind = RequestTrailers
		headers(r.RequestTrailers.GetTrailers())
	case *extprocv3.ProcessingRequest_ResponseTrailers:
		v.Kind = ResponseTrailers
		headers(r.ResponseTrailers.GetTrailers())
	}
	if c := p.ProtocolConfig; c != nil {
		v.RequestMode, v.ResponseMode = Mode(c.RequestBodyMode), Mode(c.ResponseBodyMode)
	}
	metadata := p.MetadataContext.GetFilterMetadata()
	v.Served = metadata[namespaceLB].GetFields()[keyServed].GetStringValue()
	if hint, ok := metadata[namespaceSubset].GetFields()[keySubset]; ok {
		v.SubsetSet = true
		texts := []string{hint.GetStringValue()}
		for _, e := range hint.GetListValue().GetValues() {
			texts = append(texts, e.GetStringValue())
		}
		for _, text := range texts {
			for part := range strings.SplitSeq(text, ",") {
				if part = strings.TrimSpace(part); part != "" {
					v.Subset = append(v.Subset, part)
				}
			}
		}
	}
	return v
}

func seeds(t testing.TB) [][]byte {
	metadata := func(namespace, key string, value any) *corev3.Metadata {
		s, err := structpb.NewStruct(map[string]any{key: value, "other": 1.5})
		if err != nil {
			t.Fatal(err)
		}
		return &corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{namespace: s, "x": {}}}
	}
	headers := &extprocv3.HttpHeaders{EndOfStream: true, Headers: &corev3.HeaderMap{Headers: []*corev3.HeaderValue{
		{Key: ":path", RawValue: []byte("/v1/chat/completions")}, {Key: ":status", Value: "200"},
		{Key: "x-request-id", Value: "1"}, {Key: "x-request-id", RawValue: []byte("2")},
		{Key: "x-other"}, {Key: "upgrade"}, {Key: "cookie", RawValue: []byte(strings.Repeat("c", 200))}}}}
	body := &extprocv3.HttpBody{Body: []byte(strings.Repeat("body ", 100)), EndOfStream: true}
	requests := []*extprocv3.ProcessingRequest{
		{Request: &extprocv3.ProcessingRequest_RequestHeaders{RequestHeaders: headers},
			MetadataContext: metadata(namespaceSubset, keySubset, "10.0.0.1:80, 10.0.0.2"),
			ProtocolConfig:  &extprocv3.ProtocolConfiguration{RequestBodyMode: filterv3.ProcessingMode_BUFFERED}},
		{Request: &extprocv3.ProcessingRequest_RequestHeaders{RequestHeaders: headers},
			MetadataContext: metadata(namespaceSubset, keySubset, []any{"10.0.0.1:80", 7.0, "[::1]:80"})},
		{Request: &extprocv3.ProcessingRequest_ResponseHeaders{ResponseHeaders: headers},
			MetadataContext: metadata(namespaceLB, keyServed, "10.0.0.1:80"), ObservabilityMode: true},
		{Request: &extprocv3.ProcessingRequest_RequestBody{RequestBody: body}},
		{
			Request: &extprocv3.ProcessingRequest_ResponseBody{
				ResponseBody: &extprocv3.HttpBody{EndOfStreamWithoutMessage: true},
			},
		},
		{Request: &extprocv3.ProcessingRequest_RequestTrailers{RequestTrailers: &extprocv3.HttpTrailers{}}},
		{Request: &extprocv3.ProcessingRequest_ResponseTrailers{}},
	}
	var out [][]byte
	for _, r := range requests {
		b, err := proto.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, b)
	}
	// Messages with two members of the oneof, and with one member twice.
	return append(out, slices.Concat(out[0], out[1]), slices.Concat(out[3], out[4]), slices.Concat(out[3], out[3]))
}

func FuzzMessage_EqualsGenerated(f *testing.F) {
	for _, b := range seeds(f) {
		f.Add(b, uint8(7))
	}
	f.Fuzz(func(t *testing.T, data []byte, cut uint8) {
		bufs, pool := pooled(data, int(cut)+1)
		m := newMessage()
		err := m.unmarshal(bufs)
		bufs.Free() // as gRPC does after the codec returns
		var reference extprocv3.ProcessingRequest
		if proto.Unmarshal(data, &reference) == nil {
			if err != nil {
				t.Fatalf("an error for a message that proto reads: %v", err)
			}
			if diff := cmp.Diff(theirs(&reference), ours(m)); diff != "" {
				t.Fatalf("want as proto reads it (-), got (+):\n%s", diff)
			}
		}
		m.Free()
		if pool.out != 0 {
			t.Fatalf("%d buffers were not freed", pool.out)
		}
	})
}

func decode(t testing.TB, r *reply) *extprocv3.ProcessingResponse {
	t.Helper()
	var p extprocv3.ProcessingResponse
	if err := proto.Unmarshal(r.bufs.Materialize(), &p); err != nil {
		t.Fatalf("proto does not read the answer: %v", err)
	}
	return &p
}

func FuzzAnswer_EqualsGenerated(f *testing.F) {
	f.Add("10.0.0.1:80,10.0.0.2:80", "ns/pool", "me", uint64(47), "pool_full", "full", 3, 429)
	f.Add("", "", "", uint64(0), "", "\x00\"<b>", 0, 0)
	f.Fuzz(func(t *testing.T, endpoints, pool, owner string, number uint64, reason, message string, retries,
		status int) {
		for _, s := range []*string{&endpoints, &pool, &owner, &reason, &message} {
			*s = strings.ToValidUTF8(*s, "?")
		}
		body := mem.BufferSlice{mem.SliceBuffer([]byte(message)), mem.SliceBuffer([]byte(reason))}
		changed := change{model: pool, length: retries, dropModel: pool == "", dropLength: retries <= 0,
			replaced: status%2 == 0, body: body}
		if !changed.replaced {
			changed.body = nil
		}
		a := &Answer{Endpoints: strings.Split(endpoints, ","), Pool: pool, Lease: Lease{owner, number}, Reason: reason,
			Message: message, MaxRetries: retries, Status: status}
		if retries > 0 {
			a.HeadersLimit = time.Duration(status) * time.Millisecond
		}
		ofBody := pickReply(replyRequestBody, a, &changed, &protocolNames)
		for _, phase := range []struct {
			reply  *reply
			common func(*extprocv3.ProcessingResponse) *extprocv3.CommonResponse
		}{
			{pickReply(replyRequestHeaders, a, &change{}, &protocolNames),
				func(p *extprocv3.ProcessingResponse) *extprocv3.CommonResponse {
					return p.GetRequestHeaders().GetResponse()
				}},
			{ofBody, func(p *extprocv3.ProcessingResponse) *extprocv3.CommonResponse {
				return p.GetRequestBody().GetResponse()
			}},
		} {
			p := decode(t, phase.reply)
			want := map[string]string{keyDestination: endpoints}
			if phase.reply == ofBody {
				changed.expect(t, want, phase.common(p))
			}
			if retries >= 0 {
				want["x-envoy-max-retries"] = strconv.Itoa(retries)
			}
			if a.HeadersLimit > 0 {
				want["x-envoy-upstream-rq-per-try-timeout-ms"] = strconv.Itoa(status)
				want["x-envoy-hedge-on-per-try-timeout"] = "true"
			}
			got := map[string]string{}
			for _, h := range phase.common(p).GetHeaderMutation().GetSetHeaders() {
				got[h.Header.Key] = string(h.Header.RawValue)
				if h.AppendAction != corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD {
					t.Errorf("%s: %v, want %v",
						h.Header.Key, h.AppendAction, corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD)
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("headers (-want +got):\n%s", diff)
			}
			metadata := map[string]any{namespaceLB: map[string]any{keyDestination: endpoints}}
			if lease := a.Lease.String(); lease != "" {
				metadata[MetadataNamespace] = map[string]any{MetadataPool: pool, MetadataLease: lease}
			}
			if diff := cmp.Diff(metadata, p.DynamicMetadata.AsMap()); diff != "" {
				t.Errorf("metadata (-want +got):\n%s", diff)
			}
		}
		i := decode(t, immediateReply(a, false)).GetImmediateResponse()
		if int32(i.GetStatus().GetCode()) != int32(status) || string(i.GetBody()) != errorBody(a, false) {
			t.Errorf("immediate response %v, want status %d with %s", i, status, errorBody(a, false))
		}
	})
}

// expect adds the headers that c sets to want, and compares c's removed headers and new body with
// got.
func (c *change) expect(t *testing.T, want map[string]string, got *extprocv3.CommonResponse) {
	t.Helper()
	var removed []string
	if c.dropModel {
		removed = append(removed, headerModel)
	}
	if c.dropLength {
		removed = append(removed, "content-length")
	}
	if c.model != "" {
		want[headerModel] = c.model
	}
	if c.length > 0 {
		want["content-length"] = strconv.Itoa(c.length)
	}
	list := got.GetHeaderMutation().GetRemoveHeaders()
	slices.Sort(removed)
	slices.Sort(list)
	if !slices.Equal(removed, list) {
		t.Errorf("removes %q, want %q", list, removed)
	}
	if text := string(got.GetBodyMutation().GetBody()); (got.GetBodyMutation() != nil) != c.replaced ||
		text != string(c.body.Materialize()) {
		t.Errorf("the body becomes %q, want it replaced: %t, by %q", text, c.replaced, c.body.Materialize())
	}
}

func FuzzEcho_EqualsGenerated(f *testing.F) {
	f.Add([]byte("chunk"), uint8(2), true)
	f.Fuzz(func(t *testing.T, data []byte, n uint8, end bool) {
		bufs, pool := pooled(data, int(n)+1)
		r := echoReply(replyResponseBody, bufs, end)
		s := decode(t, r).GetResponseBody().GetResponse().GetBodyMutation().GetStreamedResponse()
		if string(s.GetBody()) != string(data) || s.GetEndOfStream() != end {
			t.Errorf("got %q, end %v; want %q, %v", s.GetBody(), s.GetEndOfStream(), data, end)
		}
		r.bufs.Free()
		if pool.out != 0 {
			t.Errorf("%d buffers were not freed", pool.out)
		}
	})
}

// A remote picker's message changes a bounded number of headers, and none that is the gateway's
// own.
func FuzzRemoteChanges_AreBounded(f *testing.F) {
	mutation := &extprocv3.HeaderMutation{RemoveHeaders: []string{"X-Gone", "host"}}
	for _, name := range []string{"X-A", "x-b", keyDestination, ":path", "x-envoy-a"} {
		mutation.SetHeaders = append(mutation.SetHeaders, &corev3.HeaderValueOption{
			Header:       &corev3.HeaderValue{Key: name, Value: "v"},
			AppendAction: corev3.HeaderValueOption_ADD_IF_ABSENT, KeepEmptyValue: true})
	}
	for range 2 {
		message, err := proto.Marshal(
			&extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_RequestHeaders{
				RequestHeaders: &extprocv3.HeadersResponse{
					Response: &extprocv3.CommonResponse{HeaderMutation: mutation},
				}}})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(message)
		for range maxChangedHeaders {
			mutation.SetHeaders = append(mutation.SetHeaders, mutation.SetHeaders[0])
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c := conversation{remote: &Remote{names: protocolNames}}
		if _, err := c.read(data); err != nil {
			return
		}
		changes, got := &c.answer.Changes, &extprocv3.HeaderMutation{}
		w := newWriter(0)
		if changes.write(&w); proto.Unmarshal(w.buf[w.at:], got) != nil {
			t.Fatalf("the pick has %q, want a HeaderMutation", w.buf[w.at:])
		}
		size := 0
		for _, o := range got.GetSetHeaders() {
			name, value := o.GetHeader().GetKey(), o.GetHeader().GetRawValue()
			if size += len(name) + len(value); !protocolNames.changeable(name) ||
				strings.ContainsAny(string(value), "\r\n\x00") {
				t.Errorf("sets %q to %q, want only changeable headers, without line ends", name, value)
			}
		}
		for _, name := range got.GetRemoveHeaders() {
			if size += len(name); !protocolNames.changeable(name) {
				t.Errorf("removes %q, want only changeable headers", name)
			}
		}
		if n := len(got.GetSetHeaders()) + len(got.GetRemoveHeaders()); n > maxChangedHeaders ||
			size > maxChangedBytes {
			t.Errorf("%d headers of %d bytes, want at most %d and at most %d",
				n, size, maxChangedHeaders, maxChangedBytes)
		}
		if want := changes.headers; want != nil && !proto.Equal(got, want) {
			t.Errorf("the pick has %v, want %v", got, changes.headers)
		}
	})
}

// Of a remote picker's list, only the first maxEndpoints entries count, each cut to maxEndpointText
// bytes.
func FuzzRemoteList_IsBounded(f *testing.F) {
	for _, s := range []string{"", ",", "10.0.0.1:80", "10.0.0.1:80, [::1]:80", strings.Repeat("10.0.0.1:80,", 17),
		strings.Repeat("1", 65) + ",2", strings.Repeat(",", 100)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, list string) {
		got, want := endpoints(list), strings.Split(list, ",")
		if len(got) != min(len(want), 16) {
			t.Fatalf("%d entries of %d, want %d", len(got), len(want), min(len(want), 16))
		}
		for i, e := range got {
			if e != want[i][:min(len(want[i]), 64)] {
				t.Errorf("entry %d is %q, want %.64q", i, e, want[i])
			}
		}
	})
}

var protocolNames = DefaultNames()
