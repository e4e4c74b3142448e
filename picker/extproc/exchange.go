package extproc

import (
	"context"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/penstock-project/penstock/picker/request"
)

// Request is what is known of a request when it is picked for.
type Request struct {
	Pool        string   // as the gateway named it; "" if it named none
	Retries     int      // of the route's own retry policy
	Spill       []string // texts that may be picked beside the pool's own endpoints, in order
	Last        bool     // it was spilled already
	TraceParent string   // W3C trace context of the ext_proc call; "" if the gateway does not trace it
	Headers     *Message
	// Body is what was read of the body before the pick: all of it in BUFFERED and FULL_DUPLEX_STREAMED if the pool
	// waits for it, else nothing.
	Body mem.BufferSlice
	// Facts are what the body says; zero without a body.
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

	picked      bool // a pick or an immediate response went out
	rejected    bool // it was an immediate response: nothing more is answered
	requestEnd  bool // the request's end went back to Envoy (FULL_DUPLEX_STREAMED)
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

// handle answers one message and frees it, except for the request's headers, which live as long as the stream.
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
		return fmt.Errorf("request headers came twice on one stream")
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
		return status.Error(codes.Unavailable, "another picker has to say")
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
		return nil // the headers are answered with the pick, when the body has been read
	}
	return x.pick(replyRequestHeaders)
}

// pick asks the picker and answers phase. Once it has answered, the body that was held is given back.
func (x *exchange) pick(phase protowire.Number) error {
	x.waiting, x.picked = false, true
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
		if over := x.hold(m); over != nil {
			x.picked = true
			return x.answer(replyRequestBody, over)
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
		return nil // a second end; the first one was answered
	}
	x.requestEnd = m.EndOfStream
	return x.echo(replyRequestBody, m.TakeBody(nil), m.EndOfStream)
}

// hold keeps m's body for the pick and reads it. It returns an answer if the body is too large.
func (x *exchange) hold(m *Message) *Answer {
	x.held += m.Body.Len()
	if x.held > x.policy.Limit {
		return &Answer{Status: 413, Reason: "body_too_large",
			Message: fmt.Sprintf("the request's body is larger than the %d bytes that this pool reads", x.policy.Limit)}
	}
	for _, b := range m.Body {
		x.scanner.Write(b.ReadOnlyData())
	}
	x.request.Body = m.TakeBody(x.request.Body)
	return nil
}

// pickAndReturnBody ends the wait of a FULL_DUPLEX_STREAMED request: the pick answers the headers, the held body follows.
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

// echo sends body back in chunks and takes over its references, sent or not.
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

// cut takes up to n bytes from the front of b, moving references.
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
			// BUFFERED with trailers and no body at all: the trailers are the only message left to answer.
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
