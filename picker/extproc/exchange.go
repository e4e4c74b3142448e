package extproc

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/penstock-project/penstock/picker/request"
)

// Request is an HTTP request at its pick.
type Request struct {
	// Gateway is the Gateway whose key authenticates the call, "namespace/name"; "" if calls need
	// no key.
	Gateway     string
	Member      string   // authenticated by the call's connection; "" for none
	Vouched     bool     // the ClusterSet believes Member's claims about callers
	Pool        string   // "" if the gateway named none
	Open        bool     // MetadataKeyOpen
	Imported    bool     // from another cluster's gateway
	One         bool     // the gateway reads one address (ORIGINAL_DST)
	Retries     int      // in the route's retry policy
	Fixed       bool     // MetadataKeyTries
	Exact       bool     // MetadataKeyUsage
	Spill       []string // targets, in order
	Subset      string   // label selector; "" for all
	Pools       []string // of the route's rule; may be nil
	Last        bool     // already spilled
	Bodyless    bool     // the request ended with its headers
	TraceParent string   // "" without tracing
	Headers     *Message
	// Body is set in BUFFERED and FULL_DUPLEX_STREAMED, if BodyPolicy has Whole or Keep. With only
	// Keep, Body may be incomplete.
	Body mem.BufferSlice
	// Facts are zero if the body was not read. Facts.Chain is valid only during Pick.Answer.
	Facts request.Facts

	exchange *exchange
	extended bool
}

// Reported reports whether an access log will report the request's end. Only this cluster's
// gateways that Penstock configures send this log.
func (r *Request) Reported() bool { return r.Pool != "" && !r.Imported }

// MaxExtension bounds Extend. It is below Envoy's maximum (translator/envoy, maxMessageTimeout).
const MaxExtension = time.Hour - 10*time.Second

// Extend makes the gateway wait up to d for the next response, instead of 2 s. Only the first call
// has an effect, because Envoy accepts one extension for each message. In the body mode
// FULL_DUPLEX_STREAMED, Envoy has no timeout.
func (r *Request) Extend(d time.Duration) {
	x := r.exchange
	if x == nil || r.extended || x.requestMode == ModeFullDuplexStreamed {
		return
	}
	r.extended = true
	_ = x.send(timeoutReply(min(d, MaxExtension))) // fails if the gateway has ended the call, which ctx shows
}

// ShowsFirstByte reports whether the gateway sends the response's body as it arrives.
func (r *Request) ShowsFirstByte() bool { return r.exchange != nil && r.exchange.showsFirstByte() }

func (x *exchange) showsFirstByte() bool {
	return x.responseMode == ModeStreamed || x.responseMode == ModeFullDuplexStreamed
}

type exchange struct {
	pick   Pick // nil if the call was not admitted
	bodies *Bodies
	names  *Names
	stream grpc.ServerStream
	ctx    context.Context

	request      Request
	policy       BodyPolicy
	served       string
	requestMode  Mode
	responseMode Mode
	observe      bool

	waiting bool
	size    int
	held    int64
	scanner *request.Scanner // nil before the first byte
	spread  *request.Spread  // nil without a hash for the pool
	change  change
	sent    mem.BufferSlice // the client's body, nil if the answer cannot change the body
	renamed mem.BufferSlice // copy of sent with the replaced model; nil if the model stays
	rewrite *request.Rewriter

	done        bool
	rejected    bool
	requestEnd  bool // Envoy got the end of the body back (FULL_DUPLEX_STREAMED)
	responseEnd bool
	begun       bool
	track       Tracker
}

var exchanges = sync.Pool{New: func() any { return new(exchange) }}

func (x *exchange) close() {
	if x.track != nil {
		x.track.End()
	}
	x.dropBody()
	x.endScan()
	if x.pick != nil {
		x.pick.End()
	}
	if x.rewrite != nil {
		x.rewrite.Release()
	}
	if x.request.Headers != nil {
		x.request.Headers.Free()
	}
	*x = exchange{}
	exchanges.Put(x)
}

func (x *exchange) send(r *reply) error { return x.stream.SendMsg(r) }

// handle answers a message and frees it, but keeps the request's headers until the stream ends.
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
	x.policy = x.pick.Body()
	if x.policy.Unavailable {
		return status.Error(codes.Unavailable, "no Envoy gets its configuration from this process: ask another picker")
	}
	if x.requestMode == ModeUnknown {
		x.requestMode, x.responseMode = x.policy.Assume, x.policy.Assume
	}
	if m.EndOfStream {
		x.request.Bodyless = true
		x.request.Facts.Spread = x.spreadOfNothing()
		return x.choose(replyRequestHeaders)
	}
	if !x.waits(m) {
		// Envoy buffers the body for the picker until the call ends. So the call ends here if the
		// access log reports the request's end.
		x.done = x.request.Reported() && !x.policy.Whole &&
			(x.requestMode == ModeBuffered || x.requestMode == ModeBufferedPartial)
		return x.choose(replyRequestHeaders)
	}
	switch x.requestMode {
	case ModeBuffered, ModeBufferedPartial:
		if !x.bodies.room(declared(m)) {
			// Pick without the body: gRPC would receive the whole body before Bodies counts it.
			// With Process the request gets a 503, because the picker cannot remove members from an
			// unread body.
			if problem := x.overloaded(x.policy.Process && x.request.Reported()); problem != nil {
				return x.answer(replyRequestHeaders, problem)
			}
			if x.done = x.request.Reported(); !x.done { // other gateways send the body anyway
				x.passUnread()
			}
			return x.choose(replyRequestHeaders)
		}
		x.waiting = true
		return x.send(passRequestHeaders)
	case ModeFullDuplexStreamed:
		x.waiting = true
		return nil
	}
	x.rewriteChunks()
	return x.choose(replyRequestHeaders)
}

// waits reports whether the pick waits for the body. Upgrades and gRPC streams may never end, and
// multipart bodies have no prompt, so their picks do not wait.
func (x *exchange) waits(headers *Message) bool {
	if !x.policy.Wait && !x.policy.Prompts {
		return false
	}
	if headers.Header("upgrade") != nil {
		return false
	}
	kind := request.KindOf(headers.Header(":path"))
	content := headers.Header("content-type")
	switch {
	case prefixed(content, "application/grpc"):
		return kind.GRPC()
	case prefixed(content, "multipart/"), kind.GRPC():
		return false
	}
	return x.policy.Wait || kind != request.OtherKind
}

func prefixed(value []byte, text string) bool {
	return len(value) >= len(text) && bytes.EqualFold(value[:len(text)], []byte(text))
}

func (x *exchange) choose(phase protowire.Number) error {
	x.waiting = false
	a := x.pick.Answer()
	x.track, x.served = a.Track, cmp.Or(a.ServedNamespace, x.names.Namespace)
	x.edit(&a)
	x.endScan()
	return x.answer(phase, &a)
}

func (x *exchange) endScan() {
	if x.spread != nil {
		x.spread.Release()
		x.spread = nil
	}
	x.sent.Free()
	x.renamed.Free()
	x.sent, x.renamed = nil, nil
	if x.scanner == nil {
		return
	}
	x.scanner.Release()
	x.scanner, x.request.Facts.Chain = nil, nil
}

func (x *exchange) answer(phase protowire.Number, a *Answer) error {
	if a.Unavailable {
		return status.Error(codes.Unavailable, a.Message)
	}
	if a.Status != 0 || a.Passthrough != nil {
		x.rejected = true
		x.dropBody()
		return x.send(immediateReply(a, ofAnthropic(x.request.Headers)))
	}
	if a.Pass && phase == replyRequestHeaders {
		return x.send(passRequestHeaders)
	}
	x.route(a)
	return x.send(pickReply(phase, a, x.changed(phase), x.names))
}

func ofAnthropic(headers *Message) bool {
	return request.KindOf(headers.Header(":path")) == request.Messages
}

func (x *exchange) dropBody() {
	x.request.Body.Free()
	clear(x.request.Body)
	x.request.Body = x.request.Body[:0]
	x.bodies.give(x.held, &x.held)
}

func (x *exchange) requestBody(m *Message) error {
	if x.observe {
		return nil
	}
	streamed := x.requestMode == ModeFullDuplexStreamed
	switch {
	case x.rewrite != nil:
		return x.rewriteChunk(m)
	case !x.waiting && !streamed:
		return x.send(passRequestBody)
	case !x.waiting && x.requestEnd:
		return nil // the end of the body was already handled
	case !x.waiting:
		x.requestEnd = m.EndOfStream
		return x.echo(replyRequestBody, m.TakeBody(nil), m.EndOfStream)
	}
	whole, problem := x.read(m, streamed)
	switch {
	case problem != nil:
		return x.answer(replyRequestBody, problem)
	case !streamed:
		// If the access log reports the request's end, the call may end now.
		x.done = x.request.Reported() && !x.request.Imported
		err := x.choose(replyRequestBody)
		x.dropBody()
		return err
	case whole && !m.EndOfStream:
		return nil
	}
	return x.pickAndReturnBody(m.EndOfStream)
}

// overloaded is called if Bodies has no room for a body. It returns a 503 if needed is true or the
// policy requires the body, else nil.
func (x *exchange) overloaded(needed bool) *Answer {
	if needed || x.policy.Whole || x.policy.Rewrite || x.policy.OwnWorkers {
		x.bodies.rejected.Add(1)
		return &Answer{Status: 503, Reason: ReasonOverloaded,
			Message: "this picker holds as many bodies as it may, and must hold this one: try again"}
	}
	x.bodies.unread.Add(1)
	return nil
}

func declared(m *Message) int64 { return int64(Digits(m.Header("content-length"), 12)) }

// read reads a chunk of the body that the pick waits for. whole is false if Bodies has no room for
// the chunk. The pick then continues without the body, or the request gets the answer problem.
func (x *exchange) read(m *Message, streamed bool) (whole bool, problem *Answer) {
	if x.size += m.Body.Len(); x.size > x.policy.Limit {
		return false, &Answer{Status: 413, Reason: "body_too_large",
			Message: fmt.Sprintf("the request's body is larger than this pool's limit of %d bytes", x.policy.Limit)}
	}
	charge := charged(m.Body)
	if x.scanner == nil {
		charge += scannerBytes
	}
	kind := request.KindOf(x.request.Headers.Header(":path"))
	if x.spread == nil && x.policy.UserMessages > 0 {
		x.spread = request.NewSpread(kind, x.policy.UserMessages)
	}
	if x.spread != nil {
		charge += int64(x.spread.Holds(m.Body.Len()))
	}
	if !x.bodies.take(charge, &x.held) {
		if problem := x.overloaded(false); problem != nil {
			return false, problem
		}
		return false, x.readNothing(m, streamed)
	}
	if x.scanner == nil {
		if x.scanner = request.New(kind); x.policy.Process {
			x.scanner.FindMembers()
		}
		if x.policy.Usage {
			x.scanner.FindStreamOptions()
		}
	}
	for _, b := range m.Body {
		x.scanner.Write(b.ReadOnlyData())
		if x.spread != nil {
			x.spread.Write(b.ReadOnlyData())
		}
	}
	if streamed || x.policy.Whole || x.policy.Keep || x.policy.Process || x.policy.Rewrite || x.policy.OwnWorkers ||
		x.policy.Usage {
		x.request.Body = m.TakeBody(x.request.Body)
	} else {
		n := charged(m.Body)
		m.DropBody()
		x.bodies.give(n, &x.held)
	}
	if m.EndOfStream || !streamed {
		return true, x.readFacts()
	}
	return true, nil
}

func (x *exchange) pickAndReturnBody(end bool) error {
	if err := x.choose(replyRequestHeaders); err != nil || x.rejected {
		return err
	}
	body := x.request.Body
	x.request.Body = nil
	x.requestEnd = end
	defer func() { x.bodies.give(x.held, &x.held) }()
	if len(body) == 0 && !end {
		return nil
	}
	if x.rewrite != nil {
		return x.echoRewritten(body, end)
	}
	return x.echo(replyRequestBody, body, end)
}

// echo sends body back in chunks and consumes its references, even after an error.
func (x *exchange) echo(phase protowire.Number, body mem.BufferSlice, end bool) error {
	if len(body) == 0 && !end {
		return nil
	}
	for {
		var chunk mem.BufferSlice
		chunk, body = request.Split(body, MaxChunk)
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

func (x *exchange) requestTrailers() error {
	if x.observe {
		return nil
	}
	if x.waiting {
		if x.scanner != nil {
			if problem := x.readFacts(); problem != nil {
				return x.answer(replyRequestTrailers, problem)
			}
		}
		if x.requestMode != ModeFullDuplexStreamed {
			// BUFFERED without a body: the trailers are the last message.
			return x.choose(replyRequestTrailers)
		}
		if err := x.pickAndReturnBody(false); err != nil || x.rejected {
			return err
		}
	}
	if x.rewrite != nil && x.requestMode == ModeFullDuplexStreamed && !x.requestEnd {
		if body, ok := x.rewrite.Write(nil, true); ok && len(body) > 0 { // bytes held back from a body that is not JSON
			if err := x.echo(replyRequestBody, body, false); err != nil {
				return err
			}
		}
	}
	x.requestEnd = true
	return x.send(passRequestTrailers)
}

func (x *exchange) responseHeaders(m *Message) error {
	var set Header
	if x.track != nil {
		set = x.track.Response(Response{
			Status: Number(m.Header(":status")), Served: string(m.Served(x.served)),
			Token:       string(m.Header("x-session-token")),
			ContentType: m.Header("content-type"),
		})
	}
	switch {
	case x.observe:
		return nil
	case set != Header{}:
		return x.send(headerReply(set))
	}
	return x.send(passResponseHeaders)
}

func (x *exchange) responseBody(m *Message) error {
	if x.track != nil && !x.begun && x.showsFirstByte() && m.Body.Len() > 0 {
		x.begun = true
		x.track.Begun()
	}
	if b, ok := x.track.(BodyTracker); ok && m.Body.Len() > 0 {
		b.Piece(m.Body)
	}
	if x.observe || x.responseEnd {
		return nil
	}
	if x.responseMode != ModeFullDuplexStreamed {
		return x.send(passResponseBody)
	}
	x.responseEnd = m.EndOfStream
	return x.echo(replyResponseBody, m.TakeBody(nil), m.EndOfStream)
}
