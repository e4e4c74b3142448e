package channel

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
)

// What the process at the other end of a stream may have this one hold. It may be an attacker's:
// other clusters are trusted with their own exports alone.
const (
	// maxRequest bounds a request in bytes, and maxVersions the items that it names: one that
	// resumes names all that the subscriber has. With more than either, the subscriber asks for a
	// snapshot.
	maxRequest  = 4 << 20
	maxVersions = 20_000
	// maxIdle bounds the requests of a stream that neither begin a subscription nor acknowledge a
	// response. A subscriber sends one for each topic that does not exist here.
	maxIdle = 64
	// maxSubscribers bounds the streams of one name that Config.Identify gives. A cluster has one,
	// and for a moment the stream of its next leader too.
	maxSubscribers = 3
	// maxStreams bounds the streams of a connection, and window is the flow control window of a
	// stream, in bytes: requests are small.
	maxStreams = 4
	window     = 64 << 10
	// handshakeTimeout bounds the handshakes of a connection.
	handshakeTimeout = 20 * time.Second
	// maxHeaders bounds the headers of a stream, and its trailers.
	maxHeaders = 32 << 10
	// idleTimeout is how long a connection without a stream stays.
	idleTimeout = 30 * time.Second
	// maxText bounds what is kept and logged of a text of a peer.
	maxText = 512
)

// Limits bound what one peer makes this process hold. The zero value has the limits for replicas,
// which are trusted.
type Limits struct {
	// Items bounds the items of one response, and the items of one message. Default: 1,048,576. The
	// smallest item takes two bytes on the wire, and a hundred times as many decoded.
	Items int
	// Message bounds one message, in bytes. Default: 64 MiB. A publisher sends messages of at most
	// 1 MiB, unless one item is larger.
	Message int
	// Bytes is how much a peer's responses take that are not complete yet, of all topics together,
	// in bytes. It is called for each message. nil: 256 MiB.
	Bytes func() int
}

func (l Limits) items() int   { return cmp.Or(l.Items, 1<<20) }
func (l Limits) message() int { return cmp.Or(l.Message, 64<<20) }

func (l Limits) bytes() int {
	if l.Bytes == nil {
		return 256 << 20
	}
	return l.Bytes()
}

// shape has the fields of a message that may be there, by their numbers; nil: those of a value,
// which are not looked into.
type shape map[protowire.Number]shape

// responseShape has the fields of delta xDS that responses of the channel use: version, resources
// (version, value, name, ttl), type, nonce, removed names. Each other one would be decoded too, and
// may have lists without end.
var responseShape = shape{1: nil, 2: {1: nil, 2: nil, 3: nil, 6: nil}, 4: nil, 5: nil, 6: nil}

// requestShape has those of requests: node (id), type, versions (key, value), nonce.
var requestShape = shape{1: {1: nil}, 2: nil, 5: {1: nil, 2: nil}, 6: nil}

// bounded is the ordinary protobuf codec, except that it decodes no message of too many items, or
// with other fields than the channel's.
type bounded struct {
	encoding.CodecV2
	shape shape
	items int
}

func newBounded(s shape, items int) bounded {
	return bounded{encoding.GetCodecV2(proto.Name), s, items}
}

// ServerOptions are those of a gRPC server whose clients are subscribers alone, such as members of
// a cluster set. Until a client's certificate is verified, it may send what a handshake needs.
func ServerOptions() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.ForceServerCodecV2(newBounded(requestShape, maxVersions+maxOwn)),
		grpc.MaxRecvMsgSize(maxRequest), grpc.MaxHeaderListSize(maxHeaders), grpc.MaxConcurrentStreams(maxStreams),
		grpc.InitialWindowSize(window), grpc.InitialConnWindowSize(window), grpc.ConnectionTimeout(handshakeTimeout),
		// Subscribers ping every 10 s; gRPC's default rejects that as an attack.
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{
			MinTime: 5 * time.Second, PermitWithoutStream: true,
		}),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			MaxConnectionIdle: idleTimeout, Time: 30 * time.Second, Timeout: 10 * time.Second,
		}),
	}
}

// Unmarshal implements encoding.CodecV2.
func (c bounded) Unmarshal(data mem.BufferSlice, v any) error {
	buf := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer buf.Free()
	left := c.items
	if err := c.shape.check(buf.ReadOnlyData(), &left); err != nil {
		return fmt.Errorf("a message of %d bytes: %w", buf.Len(), err)
	}
	if err := c.CodecV2.Unmarshal(mem.BufferSlice{buf}, v); err != nil {
		return fmt.Errorf("decode: %w", err)
	}
	return nil
}

var errTooMany = errors.New("it has too many items")

// check returns an error if a message has other fields, or more parts than are left.
func (s shape) check(message []byte, left *int) error {
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return protowire.ParseError(n)
		}
		size := protowire.ConsumeFieldValue(number, kind, message[n:])
		if size < 0 {
			return protowire.ParseError(size)
		}
		of, known := s[number]
		if !known {
			return fmt.Errorf("it has field %d, which the channel does not use", number)
		}
		if *left--; *left < 0 {
			return errTooMany
		}
		if part, m := protowire.ConsumeBytes(message[n:]); of != nil && kind == protowire.BytesType && m >= 0 {
			own := maxOwn
			if err := of.check(part, &own); err != nil {
				return err
			}
		}
		message = message[n+size:]
	}
	return nil
}

// maxOwn bounds the fields of an item.
const maxOwn = 16

// clip bounds a text of a peer.
func clip(text string) string {
	if len(text) <= maxText {
		return text
	}
	return fmt.Sprintf("%.*q and %d bytes more", maxText/2, text, len(text)-maxText/2)
}

// quota bounds how often something is logged: a few times at once, and then once an interval.
type quota struct {
	since time.Time // when it has grown last; zero: it was never asked
	left  int
}

const (
	quotaBurst    = 10
	quotaInterval = 10 * time.Second
)

// take reports whether it may be logged now.
func (q *quota) take(now time.Time) bool {
	if gained := int(now.Sub(q.since) / quotaInterval); q.since.IsZero() || gained > 0 {
		if q.since.IsZero() {
			gained = quotaBurst
		}
		q.left, q.since = min(quotaBurst, q.left+gained), now
	}
	if q.left == 0 {
		return false
	}
	q.left--
	return true
}

// Problems collects errors of which a peer may cause any number: the first ones, and how many there
// are.
type Problems struct {
	first []error
	more  int
}

// Add adds an error; nil: none.
func (p *Problems) Add(err error) {
	switch {
	case err == nil:
	case len(p.first) < 3:
		p.first = append(p.first, err)
	default:
		p.more++
	}
}

// Addf is Add for a text. Only the first ones are formatted.
func (p *Problems) Addf(format string, args ...any) {
	if len(p.first) < 3 {
		p.first = append(p.first, fmt.Errorf(format, args...))
		return
	}
	p.more++
}

// Err is all of them; nil: there is none.
func (p *Problems) Err() error {
	if p.more == 0 {
		return errors.Join(p.first...)
	}
	return fmt.Errorf("%w\nand %d more", errors.Join(p.first...), p.more)
}
