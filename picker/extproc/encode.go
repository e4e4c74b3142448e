package extproc

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
)

// MaxChunk bounds the body bytes in one StreamedBodyResponse. Envoy limits a message to 64 KiB.
const MaxChunk = 62 << 10

// Answer is a Picker's decision about a request.
type Answer struct {
	// Status is 0 for a pick, else the HTTP status of an immediate response.
	Status int
	// Endpoints are "ip:port", or "envoy://hops/NAME" for a hop. The Picker may reuse the list's
	// memory after Track.End.
	Endpoints List
	// MaxRetries is the value of x-envoy-max-retries; a negative value sets no header.
	MaxRetries int
	// HeadersLimit is the time without headers after which Envoy also tries the next endpoint; 0
	// means no limit.
	HeadersLimit time.Duration
	// Headers are headers to set in the request. Other endpointpicker.RoutingHeaders are removed.
	Headers []Header
	// TokenData is a JSON array of token IDs for the body's nvext.token_data, or nil. It needs
	// BodyPolicy.OwnWorkers.
	TokenData []byte
	// TokenIDs replaces the body's "token_ids", if not nil. It needs BodyPolicy.Process.
	TokenIDs []byte
	Changes  Changes
	// Pool and Lease appear in the access log, if Lease is set.
	Pool  string
	Lease Lease
	// Keeps means that the server stores the response. The gateway then reports the response's ID
	// in the access log.
	Keeps bool
	// Used is an accesslog.PickText for the access log, or "".
	Used string
	// Reason is a short and stable text for x-penstock-reason, such as "pool_full". Message is for
	// display. Both need a Status.
	Reason, Message string
	// Body is the JSON body of an immediate response with Status 200 and no Reason.
	Body string
	// RetryAfter is rounded up to seconds. Dropped is the value of x-llm-d-request-dropped-reason.
	// Both need a Status.
	RetryAfter time.Duration
	Dropped    string
	// ServedNamespace is the metadata namespace in which the gateway names the serving endpoint;
	// "" means Config.Names.
	ServedNamespace string
	// Track receives the response's headers and the stream's end; may be nil.
	Track Tracker
	// Unavailable ends the call with gRPC's UNAVAILABLE and Message. The gateway then calls another
	// picker, or continues without a pick.
	Unavailable bool
	// Pass forwards the request without a pick, if the gateway has sent only headers so far.
	Pass bool
	// Passthrough is a remote picker's encoded ImmediateResponse, which replaces Status.
	Passthrough []byte
}

// List is a pick's endpoints in order.
type List []string

// String returns the list as on the wire, comma-separated.
func (l List) String() string { return strings.Join(l, ",") }

// Lease is the ID of a request in flight. The zero value means no lease.
type Lease struct {
	Owner  string // contains no dot
	Number uint64
}

// String returns the ID as on the wire, such as "owner.1z"; "" for the zero value.
func (l Lease) String() string {
	if l == (Lease{}) {
		return ""
	}
	return l.Owner + "." + strconv.FormatUint(l.Number, 36)
}

// Header is a header of a request or a response.
type Header struct{ Name, Value string }

// Response has the fields of response headers that a picker reads.
type Response struct {
	Status      int
	Served      string // serving endpoint; "" for none
	Token       string // x-session-token of the picker behind the gateway, or ""
	ContentType []byte
}

// Tracker follows one request after its pick. The stream's goroutine calls its methods, End last.
type Tracker interface {
	// Response returns a header to set, or the zero Header.
	Response(Response) Header
	// Begun is called at the first byte of the response's body, if the gateway sends the body as it
	// arrives.
	Begun()
	// End is called at the end of the stream: soon after the pick if the gateway does not send the
	// response.
	End()
}

// BodyTracker is a Tracker that reads response bodies, if the gateway sends them.
type BodyTracker interface {
	Tracker
	// Piece receives a part of the body, valid during the call.
	Piece(mem.BufferSlice)
}

const (
	replyRequestHeaders   protowire.Number = 1
	replyResponseHeaders  protowire.Number = 2
	replyRequestBody      protowire.Number = 3
	replyResponseBody     protowire.Number = 4
	replyRequestTrailers  protowire.Number = 5
	replyResponseTrailers protowire.Number = 6
	replyImmediate        protowire.Number = 7
	replyMetadata         protowire.Number = 8
	replyTimeout          protowire.Number = 10
)

// writer encodes a message backward. So a nested message's length is known when its tag is written.
type writer struct {
	buf []byte
	at  int
}

func (w *writer) len() int { return len(w.buf) - w.at }

func (w *writer) reserve(n int) {
	if w.at >= n {
		return
	}
	grown := make([]byte, 2*len(w.buf)+n)
	at := len(grown) - w.len()
	copy(grown[at:], w.buf[w.at:])
	w.buf, w.at = grown, at
}

func (w *writer) text(s string) {
	w.reserve(len(s))
	w.at -= len(s)
	copy(w.buf[w.at:], s)
}

func (w *writer) varint(v uint64) {
	n := protowire.SizeVarint(v)
	w.reserve(n)
	w.at -= n
	protowire.AppendVarint(w.buf[w.at:w.at], v)
}

func (w *writer) tag(num protowire.Number, typ protowire.Type) {
	w.varint(protowire.EncodeTag(num, typ))
}

func (w *writer) close(num protowire.Number, mark int) {
	w.varint(uint64(w.len() - mark))
	w.tag(num, protowire.BytesType)
}

func (w *writer) str(num protowire.Number, s string) {
	mark := w.len()
	w.text(s)
	w.close(num, mark)
}

func (w *writer) list(num protowire.Number, l List) {
	mark := w.len()
	for i, s := range slices.Backward(l) {
		if w.text(s); i > 0 {
			w.text(",")
		}
	}
	w.close(num, mark)
}

func (w *writer) uint(num protowire.Number, v uint64) {
	w.varint(v)
	w.tag(num, protowire.VarintType)
}

func (w *writer) header(name string, value ...string) {
	option := w.len()
	w.uint(3, 2) // OVERWRITE_IF_EXISTS_OR_ADD
	header := w.len()
	w.list(3, value) // raw_value, because Envoy ignores value
	w.str(1, name)
	w.close(1, header)
	w.close(1, option)
}

func (w *writer) field(key string, value ...string) {
	entry := w.len()
	v := w.len()
	w.list(3, value)
	w.close(2, v)
	w.str(1, key)
	w.close(1, entry)
}

// namespace wraps the fields written since mark in a Struct, as the entry name of dynamic_metadata.
func (w *writer) namespace(name string, mark int) {
	w.close(5, mark) // Value.struct_value
	w.close(2, mark)
	w.str(1, name)
	w.close(1, mark)
}

func pickReply(phase protowire.Number, a *Answer, c *change, names *Names) *reply {
	if c.replaced {
		w := newWriter(replyBytes)
		w.pick(phase, a, c, names)
		r := w.done()
		r.bufs = append(r.bufs, c.body...)
		return r
	}
	r := newReply()
	w := r.writer()
	w.pick(phase, a, c, names)
	return r.set(&w)
}

// pick writes the response for a pick. The oneof is the message's last field, so that the caller
// can append a new body. A response to trailers can carry only metadata.
func (w *writer) pick(phase protowire.Number, a *Answer, c *change, names *Names) {
	if phase == replyRequestTrailers {
		w.varint(0)
		w.tag(phase, protowire.BytesType)
	} else {
		w.oneof(phase, a, c, names)
	}
	outer := w.len()
	mark := w.len()
	w.field(names.Destination, a.Endpoints...)
	w.namespace(names.Namespace, mark)
	if a.Lease != (Lease{}) {
		mark = w.len()
		w.lease(a.Lease)
		w.field(MetadataPool, a.Pool)
		if a.Keeps {
			w.field(MetadataKeeps, "true")
		}
		if a.Used != "" {
			w.field(MetadataPick, a.Used)
		}
		w.namespace(MetadataNamespace, mark)
	}
	w.close(replyMetadata, outer)
}

func (w *writer) oneof(phase protowire.Number, a *Answer, c *change, names *Names) {
	size := c.body.Len()
	if c.replaced {
		w.varint(uint64(size))
		w.tag(1, protowire.BytesType) // BodyMutation.body
		w.varint(uint64(w.len() + size))
		w.tag(3, protowire.BytesType) // CommonResponse.body_mutation
	}
	mark := w.len()
	if a.MaxRetries >= 0 {
		w.header("x-envoy-max-retries", strconv.Itoa(a.MaxRetries))
	}
	if a.HeadersLimit > 0 {
		w.header("x-envoy-upstream-rq-per-try-timeout-ms", strconv.FormatInt(a.HeadersLimit.Milliseconds(), 10))
		// Without this header, Envoy would end an attempt that exceeds the limit.
		w.header("x-envoy-hedge-on-per-try-timeout", "true")
	}
	w.header(names.Destination, a.Endpoints...)
	c.headers(w)
	w.close(2, mark) // CommonResponse.header_mutation
	w.varint(uint64(w.len() + size))
	w.tag(1, protowire.BytesType) // HeadersResponse.response, BodyResponse.response
	w.varint(uint64(w.len() + size))
	w.tag(phase, protowire.BytesType)
}

func (w *writer) lease(l Lease) {
	var memory [13]byte
	digits := strconv.AppendUint(memory[:0], l.Number, 36)
	entry := w.len()
	w.text(string(digits))
	w.text(".")
	w.text(l.Owner)
	w.close(3, entry)
	w.close(2, entry)
	w.str(1, MetadataLease)
	w.close(1, entry)
}

// The filter's receiving_namespaces must list MetadataNamespace and envoy.lb.
const (
	MetadataNamespace = "penstock"
	MetadataPool      = "pool"
	MetadataLease     = "lease"
	MetadataKeeps     = "keeps" // "true" with Answer.Keeps
	MetadataPick      = "pick"  // Answer.Used
)

func immediateReply(a *Answer, anthropic bool) *reply {
	if a.Passthrough != nil {
		w := newWriter(len(a.Passthrough) + 16)
		w.str(replyImmediate, string(a.Passthrough))
		return w.done()
	}
	w := newWriter(512 + 2*len(a.Message) + len(a.Body))
	mark := w.len()
	body, details := a.Body, "penstock_answer"
	if body == "" {
		body, details = errorBody(a, anthropic), "penstock_"+a.Reason
	}
	w.str(5, details)
	w.str(3, body)
	headers := w.len()
	w.header("content-type", "application/json")
	if a.Body == "" {
		w.header("x-penstock-reason", a.Reason)
	}
	if a.Dropped != "" {
		w.header("x-llm-d-request-dropped-reason", a.Dropped)
	}
	if a.RetryAfter > 0 {
		w.header("retry-after", strconv.Itoa(int((a.RetryAfter+time.Second-1)/time.Second)))
	}
	w.close(2, headers)
	status := w.len()
	w.uint(1, uint64(a.Status))
	w.close(1, status)
	w.close(replyImmediate, mark)
	return w.done()
}

func errorBody(a *Answer, anthropic bool) string {
	kind, kindAnthropic := "service_unavailable_error", "api_error"
	switch a.Status {
	case 429:
		kind, kindAnthropic = "rate_limit_error", "rate_limit_error"
	case 413:
		kind, kindAnthropic = "invalid_request_error", "request_too_large"
	case 400:
		kind, kindAnthropic = "invalid_request_error", "invalid_request_error"
	case 401:
		kind, kindAnthropic = "invalid_request_error", "authentication_error"
	case 403:
		kind, kindAnthropic = "invalid_request_error", "permission_error"
	}
	out := map[string]any{"error": map[string]any{"message": a.Message, "type": kind, "code": a.Reason, "param": nil}}
	if anthropic {
		out = map[string]any{"type": "error", "error": map[string]any{"type": kindAnthropic, "message": a.Message}}
	}
	body, err := json.Marshal(out)
	if err != nil {
		return ""
	}
	return string(body)
}

// All streams share these replies. They hold no pooled memory, so gRPC's Free has no effect.
var (
	passRequestHeaders   = passReply(replyRequestHeaders)
	passResponseHeaders  = passReply(replyResponseHeaders)
	passRequestBody      = passReply(replyRequestBody)
	passResponseBody     = passReply(replyResponseBody)
	passRequestTrailers  = passReply(replyRequestTrailers)
	passResponseTrailers = passReply(replyResponseTrailers)
)

func headerReply(h Header) *reply {
	r := newReply()
	w := r.writer()
	mark := w.len()
	w.header(h.Name, h.Value)
	w.close(2, mark) // CommonResponse.header_mutation
	w.close(1, mark) // HeadersResponse.response
	w.close(replyResponseHeaders, mark)
	return r.set(&w)
}

func timeoutReply(d time.Duration) *reply {
	w := newWriter(32)
	mark := w.len()
	if nanos := d % time.Second; nanos > 0 {
		w.uint(2, uint64(nanos))
	}
	w.uint(1, uint64(d/time.Second))
	w.close(replyTimeout, mark)
	return w.done()
}

func passReply(phase protowire.Number) *reply {
	w := newWriter(4)
	w.varint(0)
	w.tag(phase, protowire.BytesType)
	return w.done()
}

// echoReply returns a chunk of at most MaxChunk bytes, as FULL_DUPLEX_STREAMED requires. The reply
// takes the chunk's references.
func echoReply(phase protowire.Number, chunk mem.BufferSlice, end bool) *reply {
	size := chunk.Len()
	w := newWriter(48)
	// The body is the last field of every enclosing message, so one short buffer precedes it.
	lengths := func(n int) { w.varint(uint64(n)) }
	lengths(size)
	w.tag(1, protowire.BytesType) // StreamedBodyResponse.body
	if end {
		w.uint(2, 1) // end_of_stream
	}
	for _, num := range [...]protowire.Number{
		3 /* streamed_response */, 3 /* body_mutation */, 1 /* response */, phase,
	} {
		lengths(w.len() + size)
		w.tag(num, protowire.BytesType)
	}
	bufs := make(mem.BufferSlice, 0, 1+len(chunk))
	bufs = append(bufs, mem.SliceBuffer(w.buf[w.at:]))
	return &reply{bufs: append(bufs, chunk...)}
}
