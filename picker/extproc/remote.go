package extproc

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/encoding/protowire"
)

// connectTimeout is how long connecting to a remote picker may take before the next one is tried. It is well below the 2 s
// that Envoy waits for this picker's response.
const connectTimeout = 500 * time.Millisecond

// remoteWindow lets a remote picker send a whole body back unread: messages after the pick are ignored, and must not block
// the remote before it has read the response's headers.
const remoteWindow = 34 << 20

// RemoteConfig locates a remote picker.
type RemoteConfig struct {
	Addrs []netip.AddrPort // tried in order; required
	TLS   bool             // without verification; false is cleartext
}

// Remote is the client side of the protocol: it forwards a gateway's request to another picker.
type Remote struct {
	conns []*grpc.ClientConn
	users atomic.Int64 // open calls, and one for the owner until Close
}

// ErrClosed is Ask's error after Close.
var ErrClosed = errors.New("the connections to this picker were closed")

// NewRemote returns a Remote, which connects at the first Ask. The caller closes it.
func NewRemote(c RemoteConfig) (*Remote, error) {
	creds := insecure.NewCredentials()
	if c.TLS {
		creds = credentials.NewTLS(&tls.Config{InsecureSkipVerify: true}) // pickers serve self-signed certificates
	}
	r := &Remote{}
	r.users.Store(1)
	for _, addr := range c.Addrs {
		conn, err := grpc.NewClient("passthrough:///"+addr.String(),
			grpc.WithTransportCredentials(creds),
			grpc.WithInitialWindowSize(remoteWindow),
			grpc.WithInitialConnWindowSize(remoteWindow),
			grpc.WithDefaultCallOptions(grpc.ForceCodecV2(codec{}), grpc.MaxCallRecvMsgSize(remoteWindow)))
		if err != nil {
			r.Close()
			return nil, fmt.Errorf("remote picker %s: %w", addr, err)
		}
		r.conns = append(r.conns, conn)
	}
	return r, nil
}

// Close closes all connections once the calls that use them have ended. Call it once.
func (r *Remote) Close() { r.release() }

// use keeps the connections open until release. It returns false after Close.
func (r *Remote) use() bool {
	for {
		n := r.users.Load()
		if n == 0 {
			return false
		}
		if r.users.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

func (r *Remote) release() {
	if r.users.Add(-1) > 0 {
		return
	}
	for _, conn := range r.conns {
		_ = conn.Close()
	}
}

// RemoteAnswer is a remote picker's response.
type RemoteAnswer struct {
	Endpoints []string // the pick, in order; empty with an immediate response
	Immediate []byte   // an encoded ImmediateResponse, for Answer.Passthrough; nil with a pick
	Status    int      // of the immediate response
	// Track forwards the response's headers to the remote picker, if the gateway sends them, and ends its stream.
	Track Tracker
}

// Ask forwards q's headers and body, and returns the remote picker's answer. Whatever mode the gateway uses, the remote sees
// FULL_DUPLEX_STREAMED, the only mode that every picker of this protocol supports. A request whose body was not read is sent
// as one without a body, because the remote would wait for it in vain. Only the destination of the remote's response is
// used; other headers and a rewritten body are ignored.
func (r *Remote) Ask(ctx context.Context, q *Request) (RemoteAnswer, error) {
	if !r.use() {
		return RemoteAnswer{}, ErrClosed
	}
	var problems []error
	for _, conn := range r.conns {
		if err := connected(ctx, conn); err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", conn.Target(), err))
			continue
		}
		a, err := r.ask(ctx, conn, q)
		if err == nil {
			return a, nil
		}
		problems = append(problems, fmt.Errorf("%s: %w", conn.Target(), err))
	}
	r.release()
	return RemoteAnswer{}, errors.Join(problems...)
}

// connected waits until conn is ready.
func connected(ctx context.Context, conn *grpc.ClientConn) error {
	if conn.GetState() == connectivity.Ready {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	for {
		state := conn.GetState()
		switch state {
		case connectivity.Ready:
			return nil
		case connectivity.Idle:
			conn.Connect()
		case connectivity.TransientFailure:
			return unreachable(ctx, conn)
		case connectivity.Shutdown:
			return errors.New("not reachable")
		}
		if !conn.WaitForStateChange(ctx, state) {
			return errors.New("not reachable in time")
		}
	}
}

// unreachable returns why a connection failed: a call on it fails at once with the reason.
func unreachable(ctx context.Context, conn *grpc.ClientConn) error {
	ctx, cancel := context.WithCancel(ctx) // ends the call if conn has become ready
	defer cancel()
	if _, err := conn.NewStream(ctx, &processStream, "/"+ServiceName+"/Process"); err != nil {
		return err
	}
	return errors.New("not reachable")
}

// What Reason returns if only one of the two sides uses TLS.
const (
	ReasonCleartext = "it answers in cleartext to a TLS handshake"
	ReasonHandshake = "the TLS handshake fails"
)

// ephemeral matches the parts of gRPC's errors that differ between attempts, and those that carry no information.
var ephemeral = regexp.MustCompile(`(read|write) tcp \S+->|rpc error: code = \w+ desc = |connection error: desc = |transport: |passthrough:///`)

// Reason returns why Ask failed, for display: the same text for the same cause.
func Reason(err error) string {
	text := err.Error()
	for _, known := range []struct{ part, reason string }{
		{"does not look like a TLS handshake", ReasonCleartext},
		{"handshake failed: EOF", ReasonHandshake + ": it closes the connection"},
		{"connection refused", "connection refused"},
	} {
		if strings.Contains(text, known.part) {
			return known.reason
		}
	}
	return strings.Join(strings.Fields(ephemeral.ReplaceAllString(text, "")), " ")
}

var processStream = grpc.StreamDesc{StreamName: "Process", ServerStreams: true, ClientStreams: true}

// ask calls one remote picker. On success the call's end releases r; on an error the caller does.
func (r *Remote) ask(ctx context.Context, conn *grpc.ClientConn, q *Request) (RemoteAnswer, error) {
	if q.TraceParent != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "traceparent", q.TraceParent)
	}
	ctx, cancel := context.WithCancel(ctx)
	stream, err := conn.NewStream(ctx, &processStream, "/"+ServiceName+"/Process")
	if err != nil {
		cancel()
		return RemoteAnswer{}, err
	}
	a, err := converse(stream, q)
	if err != nil {
		cancel()
		return a, err
	}
	track := remoteTracker{stream: stream, cancel: cancel, remote: r}
	if a.Immediate != nil {
		track.End()
		return a, nil
	}
	a.Track = track
	return a, nil
}

func converse(stream grpc.ClientStream, q *Request) (RemoteAnswer, error) {
	if err := stream.SendMsg(forwardHeaders(q.Headers, len(q.Body) == 0)); err != nil {
		return RemoteAnswer{}, fmt.Errorf("headers: %w", err)
	}
	q.Body.Ref()
	body := append(mem.BufferSlice(nil), q.Body...) // cut moves references and reuses its argument
	for len(body) > 0 {
		var chunk mem.BufferSlice
		chunk, body = cut(body, MaxChunk)
		if err := stream.SendMsg(forwardChunk(chunk, len(body) == 0)); err != nil {
			body.Free()
			break // the remote ended the stream; RecvMsg returns its answer or its error
		}
	}
	for {
		var m remoteMessage
		if err := stream.RecvMsg(&m); err != nil {
			return RemoteAnswer{}, fmt.Errorf("no pick: %w", err)
		}
		switch {
		case m.immediate != nil:
			return RemoteAnswer{Immediate: m.immediate, Status: m.status}, nil
		case m.destination() != "":
			return RemoteAnswer{Endpoints: strings.Split(m.destination(), ",")}, nil
		}
	}
}

// forwardHeaders returns the message as the gateway sent it, with the body mode changed by appended fields: protobuf merges
// repeated fields.
func forwardHeaders(m *Message, end bool) *reply {
	w := newWriter(16)
	mark := w.len()
	w.uint(2, uint64(ModeNone))
	w.uint(1, uint64(ModeFullDuplexStreamed))
	w.close(11, mark) // protocol_config
	if end {
		mark = w.len()
		w.uint(3, 1)
		w.close(protowire.Number(RequestHeaders), mark)
	}
	m.raw.Ref()
	bufs := append(make(mem.BufferSlice, 0, len(m.raw)+1), m.raw...)
	return &reply{bufs: append(bufs, mem.SliceBuffer(w.buf[w.at:]))}
}

// forwardChunk returns a message with a chunk of the body. It consumes chunk's references.
func forwardChunk(chunk mem.BufferSlice, end bool) *reply {
	w := newWriter(24)
	size := chunk.Len()
	w.varint(uint64(size))
	w.tag(1, protowire.BytesType)
	if end {
		w.uint(2, 1)
	}
	w.varint(uint64(w.len() + size))
	w.tag(protowire.Number(RequestBody), protowire.BytesType)
	bufs := append(make(mem.BufferSlice, 0, len(chunk)+1), mem.SliceBuffer(w.buf[w.at:]))
	return &reply{bufs: append(bufs, chunk...)}
}

type remoteTracker struct {
	stream grpc.ClientStream
	cancel context.CancelFunc
	remote *Remote
}

// Response implements Tracker.
func (t remoteTracker) Response(status int, served string) {
	w := newWriter(256)
	if served != "" {
		mark := w.len()
		w.field(keyServed, served)
		w.close(2, mark)
		w.str(1, namespaceLB)
		w.close(1, mark) // Metadata.filter_metadata
		w.close(8, mark)
	}
	mark := w.len()
	w.str(3, fmt.Sprint(status))
	w.str(1, ":status")
	w.close(1, mark) // HeaderMap.headers
	w.close(1, mark) // HttpHeaders.headers
	w.close(protowire.Number(ResponseHeaders), mark)
	_ = t.stream.SendMsg(w.done()) // fails if the remote is gone, which then needs no report
}

// End implements Tracker.
func (t remoteTracker) End() {
	_ = t.stream.CloseSend()
	t.cancel()
	t.remote.release()
}

// remoteMessage is one ProcessingResponse of a remote picker, reduced to a pick or an immediate response.
type remoteMessage struct {
	header, metadata string
	immediate        []byte
	status           int
}

// destination prefers the metadata, which is what Envoy follows.
func (m *remoteMessage) destination() string {
	if m.metadata != "" {
		return m.metadata
	}
	return m.header
}

func (m *remoteMessage) unmarshal(data mem.BufferSlice) error {
	return fields(data.Materialize(), func(num protowire.Number, val []byte, _ uint64, typ protowire.Type) error {
		if typ != protowire.BytesType {
			return nil
		}
		switch num {
		case replyRequestHeaders, replyRequestBody:
			return eachField(val, 1, func(common []byte) error { // response
				return eachField(common, 2, m.mutation)
			})
		case replyImmediate:
			m.immediate = append([]byte{}, val...)
			return eachField(val, 1, func(status []byte) error {
				return fields(status, func(num protowire.Number, _ []byte, v uint64, typ protowire.Type) error {
					if num == 1 && typ == protowire.VarintType {
						m.status = int(v)
					}
					return nil
				})
			})
		case replyMetadata:
			eachEntry(val, namespaceLB, func(value []byte) {
				m.metadata = ""                                     // of two entries with one key the later one is used
				_ = eachField(value, 5, func(object []byte) error { // struct_value
					eachEntry(object, keyDestination, func(value []byte) {
						m.metadata = ""
						if kind, text := structValue(value); kind == valueString {
							m.metadata = string(text)
						}
					})
					return nil
				})
			})
		}
		return nil
	})
}

// mutation finds the destination among set_headers.
func (m *remoteMessage) mutation(b []byte) error {
	return eachField(b, 1, func(option []byte) error {
		return eachField(option, 1, func(header []byte) error {
			var name, value string
			err := fields(header, func(num protowire.Number, val []byte, _ uint64, typ protowire.Type) error {
				switch {
				case typ != protowire.BytesType:
				case num == 1:
					name = string(val)
				case len(val) > 0:
					value = string(val)
				}
				return nil
			})
			if strings.EqualFold(name, keyDestination) {
				m.header = value
			}
			return err
		})
	})
}

// eachField calls f with every length-delimited field num of b.
func eachField(b []byte, num protowire.Number, f func([]byte) error) error {
	return fields(b, func(n protowire.Number, val []byte, _ uint64, typ protowire.Type) error {
		if n == num && typ == protowire.BytesType {
			return f(val)
		}
		return nil
	})
}
