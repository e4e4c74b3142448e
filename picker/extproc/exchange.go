package extproc

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/penstock-project/penstock/picker/request"
)

// Request is an HTTP request at the time of its pick.
type Request struct {
	Gateway     string   // whose key the call has, "namespace/name"; "" if calls need none
	Pool        string   // as the gateway named it; "" if it named none
	Retries     int      // of the route's own retry policy
	Spill       []string // spill targets, in order
	Last        bool     // the request was spilled already
	TraceParent string   // W3C trace context of the ext_proc call; "" if the gateway does not trace it
	Headers     *Message
	// Body is the whole body in BUFFERED and FULL_DUPLEX_STREAMED if the pool waits for it, and empty otherwise.
	Body mem.BufferSlice
	// Facts are read from the body; zero without a body.
	Facts request.Facts
}

// exchange is the state of one stream: one HTTP request and its response.
type exchange struct {
	picker Picker
	stream grpc.ServerStream
	ctx    context.Context

	request      Request
	policy       BodyPolicy
	requestMode  Mode
	responseMode Mode
	observe      bool

	waiting bool // the pick waits for the body
	held    int  // bytes in request.Body
	scanner request.Scanner

	rejected    bool // an immediate response was sent: no message is answered after it
	requestEnd  bool // the request's end was sent back to Envoy (FULL_DUPLEX_STREAMED)
	responseEnd bool
	track       Tracker
}

func (x *exchange) close() {
	if x.track != nil {
		x.track.End()
	}
	x.request.Body.Free()
	if x.request.Headers != nil {
		x.request.Headers.Free()
	}
}

func (x *exchange) send(r *reply) error { return x.stream.SendMsg(r) }

// handle answers one message and frees it, except the request's headers, which live as long as the stream.
func (x *exchange) handle(m *Message) error {
	x.learnModes(m)
	if m.Kind == RequestHeaders && x.request.Headers == nil {
		x.request.Headers = m
		return x.requestHeaders(m)
	}
	defer m.Free()
	if x.rejected {
		return nil
	}
	switch m.Kind {
	case RequestBody:
		return x.requestBody(m)
	case RequestTrailers:
		return x.requestTrailers()
	case ResponseHeaders:
		return x.responseHeaders(m)
	case ResponseBody:
		return x.responseBody(m)
	case ResponseTrailers:
		if x.observe {
			return nil
		}
		x.responseEnd = true
		return x.send(passResponseTrailers)
	case RequestHeaders:
		return errors.New("second request headers on one stream")
	}
	return nil
}

// learnModes takes the body modes from a stream's first message.
func (x *exchange) learnModes(m *Message) {
	x.observe = x.observe || m.Observe
	if m.RequestMode != ModeUnknown {
		x.requestMode, x.responseMode = m.RequestMode, m.ResponseMode
		return
	}
	if m.Kind == RequestHeaders {
		x.requestMode = ModeUnknown
	}
}

func (x *exchange) requestHeaders(m *Message) error {
	if x.observe {
		return nil
	}
	x.policy = x.picker.Body(x.request.Pool)
	if x.policy.Unavailable {
		return status.Error(codes.Unavailable, "no Envoy gets its configuration from this process: ask another picker")
	}
	if x.requestMode == ModeUnknown {
		x.requestMode, x.responseMode = x.policy.Assume, x.policy.Assume
	}
	if m.EndOfStream || !x.policy.Wait {
		return x.pick(replyRequestHeaders)
	}
	switch x.requestMode {
	case ModeBuffered, ModeBufferedPartial:
		x.waiting = true
		return x.send(passRequestHeaders)
	case ModeFullDuplexStreamed:
		x.waiting = true
		return nil // the pick answers the headers, after the body has been read
	}
	return x.pick(replyRequestHeaders)
}

// pick asks the picker and answers phase.
func (x *exchange) pick(phase protowire.Number) error {
	x.waiting = false
	a := x.picker.Pick(x.ctx, &x.request)
	x.track = a.Track
	return x.answer(phase, &a)
}

func (x *exchange) answer(phase protowire.Number, a *Answer) error {
	if a.Unavailable {
		return status.Error(codes.Unavailable, a.Message)
	}
	if a.Status != 0 || a.Passthrough != nil {
		x.rejected = true
		x.dropBody()
		return x.send(immediateReply(a))
	}
	return x.send(pickReply(phase, a))
}

func (x *exchange) dropBody() {
	x.request.Body.Free()
	clear(x.request.Body)
	x.request.Body = x.request.Body[:0]
	x.held = 0
}

func (x *exchange) requestBody(m *Message) error {
	if x.observe {
		return nil
	}
	streamed := x.requestMode == ModeFullDuplexStreamed
	if x.waiting {
		if tooLarge := x.hold(m); tooLarge != nil {
			return x.answer(replyRequestBody, tooLarge)
		}
		if streamed && !m.EndOfStream {
			return nil
		}
		x.request.Facts = x.scanner.Facts()
		if !streamed {
			err := x.pick(replyRequestBody)
			x.dropBody()
			return err
		}
		return x.pickAndReturnBody(true)
	}
	if !streamed {
		return x.send(passRequestBody)
	}
	if x.requestEnd {
		return nil // a second end of the body; the first one was answered
	}
	x.requestEnd = m.EndOfStream
	return x.echo(replyRequestBody, m.TakeBody(nil), m.EndOfStream)
}

// hold keeps m's body for the pick and scans it. It returns an answer if the body is too large.
func (x *exchange) hold(m *Message) *Answer {
	x.held += m.Body.Len()
	if x.held > x.policy.Limit {
		return &Answer{Status: 413, Reason: "body_too_large",
			Message: fmt.Sprintf("the request's body is larger than this pool's limit of %d bytes", x.policy.Limit)}
	}
	for _, b := range m.Body {
		x.scanner.Write(b.ReadOnlyData())
	}
	x.request.Body = m.TakeBody(x.request.Body)
	return nil
}

// pickAndReturnBody answers the headers of a FULL_DUPLEX_STREAMED request with a pick, and then sends the held body back.
func (x *exchange) pickAndReturnBody(end bool) error {
	if err := x.pick(replyRequestHeaders); err != nil || x.rejected {
		return err
	}
	body := x.request.Body
	x.request.Body = nil
	x.requestEnd = end
	if len(body) == 0 && !end {
		return nil
	}
	return x.echo(replyRequestBody, body, end)
}

// echo sends body back in chunks. It consumes body's references, on errors too.
func (x *exchange) echo(phase protowire.Number, body mem.BufferSlice, end bool) error {
	if len(body) == 0 && !end {
		return nil
	}
	for {
		var chunk mem.BufferSlice
		chunk, body = cut(body, MaxChunk)
		last := len(body) == 0
		if err := x.send(echoReply(phase, chunk, end && last)); err != nil {
			body.Free()
			return err
		}
		if last {
			return nil
		}
	}
}

// cut splits b after at most n bytes, moving its references.
func cut(b mem.BufferSlice, n int) (front, rest mem.BufferSlice) {
	for i, buf := range b {
		if size := buf.Len(); size <= n {
			n -= size
			continue
		}
		if n == 0 {
			return b[:i:i], b[i:]
		}
		front = append(b[:i:i], buf.Slice(0, n))
		rest = b[i:]
		rest[0] = buf.Slice(n, buf.Len())
		buf.Free()
		return front, rest
	}
	return b, nil
}

func (x *exchange) requestTrailers() error {
	if x.observe {
		return nil
	}
	if x.waiting {
		x.request.Facts = x.scanner.Facts()
		if x.requestMode != ModeFullDuplexStreamed {
			// BUFFERED with trailers and no body: the trailers are the last message that can be answered.
			return x.pick(replyRequestTrailers)
		}
		if err := x.pickAndReturnBody(false); err != nil || x.rejected {
			return err
		}
	}
	x.requestEnd = true
	return x.send(passRequestTrailers)
}

func (x *exchange) responseHeaders(m *Message) error {
	if x.track != nil {
		x.track.Response(Number(m.Header(":status")), string(m.Served()))
	}
	if x.observe {
		return nil
	}
	return x.send(passResponseHeaders)
}

func (x *exchange) responseBody(m *Message) error {
	if x.observe || x.responseEnd {
		return nil
	}
	if x.responseMode != ModeFullDuplexStreamed {
		return x.send(passResponseBody)
	}
	x.responseEnd = m.EndOfStream
	return x.echo(replyResponseBody, m.TakeBody(nil), m.EndOfStream)
}
