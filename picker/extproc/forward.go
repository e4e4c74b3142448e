package extproc

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
)

// conversation is one call of a remote picker.
type conversation struct {
	stream grpc.ClientStream
	peer   *peer
	q      *Request
	names  *Names
	cancel func()
	extend func(time.Duration) // receives how long the remote picker wants to have
	answer RemoteAnswer
	body   returned
	quit   chan struct{} // closed when no message matters any more
}

// silence is how long a remote picker that has named endpoints may take to begin to send the body back, unless it has done so for
// another request. The protocol demands it, and not all do.
const silence = 250 * time.Millisecond

// received is a message, or the end of the call.
type received struct {
	message remoteMessage
	err     error
}

// converse sends the request and reads its answer. What the remote picker sends after it is discarded.
func (c *conversation) converse() (RemoteAnswer, error) {
	if err := c.send(); err != nil {
		return RemoteAnswer{}, err
	}
	messages, quiet := make(chan received), (<-chan time.Time)(nil)
	go c.receive(messages)
	defer close(c.quit)
	most := maxMessages + c.q.Body.Len()/512
	for range most {
		var r received
		select {
		case r = <-messages:
		case <-quiet:
			return c.answer, nil
		}
		done, err := c.take(&r)
		if err != nil {
			return RemoteAnswer{}, err
		}
		if done {
			return c.answer, nil
		}
		if len(c.answer.Endpoints) > 0 && quiet == nil && !c.peer.returns.Load() {
			timer := time.NewTimer(silence)
			defer timer.Stop()
			quiet = timer.C
		}
		if c.body.begun {
			quiet = nil
			c.peer.returns.Store(true)
		}
	}
	return RemoteAnswer{}, fmt.Errorf("no pick in %d messages", most)
}

func (c *conversation) send() error {
	if err := c.stream.SendMsg(forwardHeaders(c.q.Headers, len(c.q.Body) == 0)); err != nil {
		return fmt.Errorf("headers: %w", err)
	}
	c.q.Body.Ref()
	body := append(mem.BufferSlice(nil), c.q.Body...) // cut moves references and reuses its argument
	for len(body) > 0 {
		var chunk mem.BufferSlice
		chunk, body = cut(body, MaxChunk)
		if err := c.stream.SendMsg(forwardChunk(chunk, len(body) == 0)); err != nil {
			body.Free()
			break // the remote ended the stream; RecvMsg returns its answer or its error
		}
	}
	return nil
}

// receive reads messages until the call ends. After the answer, it discards them: a remote picker that is blocked by unread messages would
// not read the response's headers. More than a body and a message more end the call.
func (c *conversation) receive(messages chan<- received) {
	limit := c.body.size + maxMessage
	for {
		select {
		case <-c.quit:
			var m discarded
			if err := c.stream.RecvMsg(&m); err != nil {
				return
			}
			if limit -= int(m); limit < 0 {
				c.cancel()
				return
			}
			continue
		default:
		}
		r := received{message: remoteMessage{names: c.names}}
		r.err = c.stream.RecvMsg(&r.message)
		select {
		case messages <- r:
		case <-c.quit:
		}
		if r.err != nil {
			return
		}
	}
}

// take takes a message into the answer, and reports whether that is complete.
func (c *conversation) take(r *received) (done bool, err error) {
	m := &r.message
	switch {
	case r.err != nil && len(c.answer.Endpoints) > 0 && !c.body.begun:
		return true, nil // it does not send the body back
	case r.err != nil:
		return false, fmt.Errorf("no pick: %w", r.err)
	case len(m.immediate) > maxImmediate:
		return false, fmt.Errorf("an immediate response of %d bytes; the limit is %d", len(m.immediate), maxImmediate)
	case m.immediate != nil:
		c.answer = RemoteAnswer{Immediate: m.immediate, Status: m.status}
		return true, nil
	case m.timeout > 0:
		c.extend(m.timeout)
		return false, nil
	}
	for _, mutation := range m.mutations {
		if err := c.answer.Changes.add(mutation, c.names); err != nil {
			return false, err
		}
	}
	if named := m.destination(); named != "" && len(c.answer.Endpoints) == 0 {
		c.answer.Endpoints = endpoints(named)
	}
	end := len(c.q.Body) == 0 || m.body && !m.streamed && !c.body.begun // it acknowledges bodies, and does not send them back
	if m.streamed {
		if err := c.body.write(m.chunk); err != nil {
			return false, err
		}
		if end = m.end || end; m.end {
			if err := c.body.end(); err != nil {
				return false, err
			}
			c.answer.Changes.body, c.answer.Changes.replaced = c.body.own, c.body.changed
		}
	}
	return end && len(c.answer.Endpoints) > 0, nil
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

// remoteTracker follows a request on the call of a remote picker.
type remoteTracker struct {
	stream grpc.ClientStream
	cancel func()
	remote *Remote

	mu    sync.Mutex
	ended bool
}

// Response implements Tracker.
func (t *remoteTracker) Response(of Response) Header {
	status, served := of.Status, of.Served
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
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.ended {
		_ = t.stream.SendMsg(w.done()) // fails if the remote is gone, which then needs no report
	}
	return Header{}
}

// End implements Tracker. It may be called from any goroutine, and more than once.
func (t *remoteTracker) End() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return
	}
	t.ended = true
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
	mutations        [][]byte      // of headers, encoded
	body             bool          // it is about the body
	streamed, end    bool          // it has a chunk of the body, the last one
	chunk            []byte
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
			m.body = m.body || num == replyRequestBody
			return eachField(val, 1, m.common)
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

// common reads a CommonResponse.
func (m *remoteMessage) common(b []byte) error {
	return fields(b, func(num protowire.Number, val []byte, _ uint64, typ protowire.Type) error {
		switch {
		case typ != protowire.BytesType:
		case num == 2: // header_mutation
			m.mutations = append(m.mutations, val)
			return m.mutation(val)
		case num == 3: // body_mutation
			return eachField(val, 3, func(chunk []byte) error { // streamed_response
				m.streamed = true
				return fields(chunk, func(num protowire.Number, val []byte, v uint64, typ protowire.Type) error {
					switch {
					case num == 1 && typ == protowire.BytesType:
						m.chunk = val
					case num == 2 && typ == protowire.VarintType:
						m.end = v != 0
					}
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
