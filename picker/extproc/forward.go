package extproc

import (
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
)

// converse sends a request to a remote picker and reads its answer. extend receives how long the remote picker wants to have.
func converse(stream grpc.ClientStream, q *Request, names *Names, extend func(time.Duration)) (RemoteAnswer, error) {
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
	for range maxMessages {
		m := remoteMessage{names: names}
		if err := stream.RecvMsg(&m); err != nil {
			return RemoteAnswer{}, fmt.Errorf("no pick: %w", err)
		}
		switch {
		case len(m.immediate) > maxImmediate:
			return RemoteAnswer{}, fmt.Errorf("an immediate response of %d bytes; the limit is %d", len(m.immediate), maxImmediate)
		case m.immediate != nil:
			return RemoteAnswer{Immediate: m.immediate, Status: m.status}, nil
		case m.destination() != "":
			return RemoteAnswer{Endpoints: endpoints(m.destination())}, nil
		case m.timeout > 0:
			extend(m.timeout)
		}
	}
	return RemoteAnswer{}, fmt.Errorf("no pick in %d messages", maxMessages)
}

// Limits of what a remote picker may send in answer to a request.
const (
	maxEndpoints    = 16       // of a list; those behind are left out
	maxEndpointText = 64       // bytes of one; the longest IPv6 address with its port has 47
	maxImmediate    = 64 << 10 // bytes of an immediate response
	maxMessages     = 64       // before the pick
)

// endpoints splits a list. Of an entry that is too long for an address the beginning remains, for reports.
func endpoints(list string) []string {
	out := strings.SplitN(list, ",", maxEndpoints+1)
	out = out[:min(len(out), maxEndpoints)]
	for i, text := range out {
		out[i] = strings.Clone(text[:min(len(text), maxEndpointText)]) // the list itself may be long
	}
	return out
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
	cancel func()
	remote *Remote
}

// Response implements Tracker.
func (t remoteTracker) Response(status int, served string) Header {
	w := newWriter(256)
	if served != "" {
		mark := w.len()
		w.field(keyServed, served)
		w.close(2, mark)
		w.str(1, t.remote.names.Namespace)
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
	return Header{}
}

// discard reads what the remote picker sends after its pick, which is the body that the protocol makes it send back: a remote that is blocked
// by unread messages would not read the response's headers. More than a limit, in bytes, ends the call. It runs beside the
// request, and ends with the call, which End cancels.
func (t remoteTracker) discard(limit int) {
	for {
		var m discarded
		if err := t.stream.RecvMsg(&m); err != nil {
			return
		}
		if limit -= int(m); limit < 0 {
			t.cancel()
			return
		}
	}
}

// End implements Tracker.
func (t remoteTracker) End() {
	_ = t.stream.CloseSend()
	t.cancel()
	t.remote.release()
}

// discarded is a message of which only the size in bytes counts.
type discarded int

// remoteMessage is one ProcessingResponse of a remote picker, reduced to a pick or an immediate response.
type remoteMessage struct {
	names            *Names
	header, metadata string
	immediate        []byte
	status           int
	timeout          time.Duration // that it asks for
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
		case replyTimeout:
			return fields(val, func(num protowire.Number, _ []byte, v uint64, typ protowire.Type) error {
				if num == 1 && typ == protowire.VarintType { // its nanoseconds do not matter
					m.timeout = time.Duration(min(v, uint64(MaxExtension/time.Second))) * time.Second
				}
				return nil
			})
		case replyMetadata:
			eachEntry(val, m.names.Namespace, func(value []byte) {
				m.metadata = ""                                     // of two entries with one key the later one is used
				_ = eachField(value, 5, func(object []byte) error { // struct_value
					eachEntry(object, m.names.Destination, func(value []byte) {
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
			if strings.EqualFold(name, m.names.Destination) {
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
