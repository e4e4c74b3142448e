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

// These constants bound the memory that a client, perhaps an attacker, makes this process use.
const (
	// maxRequest bounds a request, in bytes. maxVersions bounds the item versions in a request that
	// resumes a topic. A subscriber above a bound requests a snapshot instead.
	maxRequest  = 4 << 20
	maxVersions = 20_000
	// maxIdle bounds the requests of a stream that neither subscribe nor acknowledge.
	maxIdle = 64
	// maxSubscribers bounds the streams of one name. A cluster that changes its leader has two for
	// a short time.
	maxSubscribers = 3
	// maxStreams bounds the streams of a connection. window is the flow control window of a stream,
	// in bytes.
	maxStreams = 4
	window     = 64 << 10
	// requestBuffer is in bytes. gRPC's default is 32 KiB.
	requestBuffer    = 4 << 10
	handshakeTimeout = 20 * time.Second
	maxHeaders       = 32 << 10
	idleTimeout      = 30 * time.Second
	maxText          = 512
)

// Limits bound the memory of one peer. The zero value is for replicas, which are trusted.
type Limits struct {
	// Items bounds the items of one response or message. Default: 1,048,576.
	Items int
	// Message bounds one message, in bytes. Default: 64 MiB.
	Message int
	// Bytes returns the limit, in bytes, of a peer's incomplete responses. nil: 256 MiB.
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

// shape has the allowed fields of a message, by number. The content of a field with a nil shape is
// not checked.
type shape map[protowire.Number]shape

// responseShape omits fields whose lists would be unbounded.
var responseShape = shape{1: nil, 2: {1: nil, 2: nil, 3: nil, 6: nil}, 4: nil, 5: nil, 6: nil}

var requestShape = shape{1: {1: nil}, 2: nil, 5: {1: nil, 2: nil}, 6: nil}

type bounded struct {
	encoding.CodecV2
	shape shape
	items int
}

func newBounded(s shape, items int) bounded {
	return bounded{encoding.GetCodecV2(proto.Name), s, items}
}

// ServerOptions returns options for a server whose clients only subscribe, which bound their
// memory.
func ServerOptions() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.ForceServerCodecV2(newBounded(requestShape, maxVersions+maxOwn)),
		grpc.MaxRecvMsgSize(maxRequest), grpc.MaxHeaderListSize(maxHeaders), grpc.MaxConcurrentStreams(maxStreams),
		grpc.InitialWindowSize(window), grpc.InitialConnWindowSize(window), grpc.ConnectionTimeout(handshakeTimeout),
		grpc.ReadBufferSize(requestBuffer),
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
		fields, known := s[number]
		if !known {
			return fmt.Errorf("it has field %d, which the channel does not use", number)
		}
		if *left--; *left < 0 {
			return errTooMany
		}
		if part, m := protowire.ConsumeBytes(message[n:]); fields != nil && kind == protowire.BytesType && m >= 0 {
			own := maxOwn
			if err := fields.check(part, &own); err != nil {
				return err
			}
		}
		message = message[n+size:]
	}
	return nil
}

const maxOwn = 16

func clip(text string) string {
	if len(text) <= maxText {
		return text
	}
	return fmt.Sprintf("%.*q and %d bytes more", maxText/2, text, len(text)-maxText/2)
}

// quota limits log lines to quotaBurst at once, then one in each quotaInterval.
type quota struct {
	since time.Time
	left  int
}

const (
	quotaBurst    = 10
	quotaInterval = 10 * time.Second
)

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

// Problems collects errors of a peer: the first three, and the number of the others.
type Problems struct {
	first []error
	more  int
}

// Add adds an error. It ignores nil.
func (p *Problems) Add(err error) {
	if err != nil {
		p.Addf("%w", err)
	}
}

// Addf adds an error. It formats the text only if Problems keeps the error.
func (p *Problems) Addf(format string, args ...any) {
	if len(p.first) < 3 {
		p.first = append(p.first, fmt.Errorf(format, args...))
		return
	}
	p.more++
}

// Err returns all errors as one; nil: no error was added.
func (p *Problems) Err() error {
	if p.more == 0 {
		return errors.Join(p.first...)
	}
	return fmt.Errorf("%w\nand %d more", errors.Join(p.first...), p.more)
}
