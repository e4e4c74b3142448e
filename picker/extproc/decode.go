package extproc

import (
	"sync"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
)

// Kind is the phase of a request that a Message is about: the member of ProcessingRequest's oneof.
type Kind uint8

// The kinds are numbered as the fields of ProcessingRequest.
const (
	NoKind           Kind = 0 // no phase, for example in a flow control update
	RequestHeaders   Kind = 2
	ResponseHeaders  Kind = 3
	RequestBody      Kind = 4
	ResponseBody     Kind = 5
	RequestTrailers  Kind = 6
	ResponseTrailers Kind = 7
)

// Mode is how a gateway sends bodies: ProcessingMode.BodySendMode.
type Mode int8

// The modes are numbered as in ProcessingMode. ModeUnknown is for gateways that do not send their
// mode (Envoy before 1.33, other data planes).
const (
	ModeUnknown            Mode = -1
	ModeNone               Mode = 0
	ModeStreamed           Mode = 1
	ModeBuffered           Mode = 2
	ModeBufferedPartial    Mode = 3
	ModeFullDuplexStreamed Mode = 4
)

// Message has a ProcessingRequest's fields that a picker reads. Its slices are valid until Free.
type Message struct {
	Kind        Kind
	EndOfStream bool // also true for end_of_stream_without_message
	// Observe is observability_mode: the picker must not respond.
	Observe bool
	// RequestMode and ResponseMode are set in a stream's first message, else ModeUnknown.
	RequestMode, ResponseMode Mode
	// Body has views of the chunk. Each view holds a reference until Free or TakeBody.
	Body mem.BufferSlice

	bodyEnd, bodyEndAlone bool // end_of_stream and end_of_stream_without_message

	raw     mem.BufferSlice
	headers [][]byte
	named   [names][]byte // first values; nil if absent
	context [][]byte
	routing bool
}

var messages = sync.Pool{New: func() any { return new(Message) }}

func newMessage() *Message { return messages.Get().(*Message) }

// Free frees m's buffers and returns m to its pool.
func (m *Message) Free() {
	m.Body.Free()
	m.raw.Free()
	clear(m.Body)
	clear(m.raw)
	clear(m.headers)
	clear(m.context)
	*m = Message{Body: m.Body[:0], raw: m.raw[:0], headers: m.headers[:0], context: m.context[:0]}
	messages.Put(m)
}

// DropBody frees the body, but not m. m must have no headers.
func (m *Message) DropBody() {
	m.Body.Free()
	m.raw.Free()
	clear(m.Body)
	clear(m.raw)
	m.Body, m.raw = m.Body[:0], m.raw[:0]
}

// TakeBody appends the body's views to dst, whose owner then owns their references.
func (m *Message) TakeBody(dst mem.BufferSlice) mem.BufferSlice {
	dst = append(dst, m.Body...)
	clear(m.Body)
	m.Body = m.Body[:0]
	return dst
}

// unmarshal keeps references to data. After an error the caller frees m.
func (m *Message) unmarshal(data mem.BufferSlice) error {
	m.RequestMode, m.ResponseMode = ModeUnknown, ModeUnknown
	data.Ref()
	m.raw = append(m.raw, data...)
	c := newCursor(m.raw)
	for c.left > 0 {
		num, typ, err := c.tag()
		if err != nil {
			return err
		}
		switch {
		case typ == protowire.BytesType && num >= 2 && num <= 7:
			err = m.phase(&c, Kind(num))
		case typ == protowire.BytesType && num == 8:
			var n int
			if n, err = c.length(); err == nil {
				m.context = append(m.context, c.bytes(n))
			}
		case typ == protowire.VarintType && num == 10:
			var v uint64
			v, err = c.varint()
			m.Observe = v != 0
		case typ == protowire.BytesType && num == 11:
			var n int
			if n, err = c.length(); err == nil {
				err = m.protocolConfig(c.bytes(n))
			}
		default:
			err = c.skip(num, typ, 0)
		}
		if err != nil {
			return err
		}
	}
	m.nameHeaders()
	return nil
}

// phase reads the member of the oneof for a phase. As protobuf requires, the value merges with an
// earlier value of the same member, and replaces an earlier value of another member.
func (m *Message) phase(c *cursor, kind Kind) error {
	n, err := c.length()
	if err != nil {
		return err
	}
	if kind != m.Kind {
		m.Body.Free()
		m.Body, m.headers, m.EndOfStream, m.Kind = m.Body[:0], m.headers[:0], false, kind
		m.bodyEnd, m.bodyEndAlone = false, false
	}
	if kind == RequestBody || kind == ResponseBody {
		return m.body(c, c.left-n)
	}
	return fields(c.bytes(n), func(num protowire.Number, val []byte, num64 uint64, typ protowire.Type) error {
		switch {
		case num == 1 && typ == protowire.BytesType:
			m.headers = append(m.headers, val)
		case num == 3 && typ == protowire.VarintType && kind <= ResponseHeaders:
			m.EndOfStream = num64 != 0
		}
		return nil
	})
}

// body reads an HttpBody until rest bytes are left in c.
func (m *Message) body(c *cursor, rest int) error {
	for c.left > rest {
		num, typ, err := c.tag()
		if err != nil {
			return err
		}
		switch {
		case num == 1 && typ == protowire.BytesType:
			var n int
			if n, err = c.length(); err == nil {
				if c.left-n < rest {
					return errTruncated
				}
				m.Body.Free() // in a singular field, the last value counts
				m.Body = c.slice(m.Body[:0], n)
			}
		case num == 2 && typ == protowire.VarintType:
			var v uint64
			v, err = c.varint()
			m.bodyEnd = v != 0
		case num == 3 && typ == protowire.VarintType:
			var v uint64
			v, err = c.varint()
			m.bodyEndAlone = v != 0
		default:
			err = c.skip(num, typ, 0)
		}
		if err != nil {
			return err
		}
	}
	if c.left < rest {
		return errTruncated
	}
	m.EndOfStream = m.bodyEnd || m.bodyEndAlone
	return nil
}

func (m *Message) protocolConfig(b []byte) error {
	m.RequestMode, m.ResponseMode = max(m.RequestMode, ModeNone), max(m.ResponseMode, ModeNone)
	return fields(b, func(num protowire.Number, _ []byte, v uint64, typ protowire.Type) error {
		switch {
		case num == 1 && typ == protowire.VarintType:
			m.RequestMode = Mode(v)
		case num == 2 && typ == protowire.VarintType:
			m.ResponseMode = Mode(v)
		}
		return nil
	})
}
