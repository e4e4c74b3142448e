package extproc

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	filterv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
)

type conversation struct {
	stream extprocv3.ExternalProcessor_ProcessClient
	remote *Remote
	peer   *peer
	q      *Request
	cancel func()
	extend func(time.Duration)
	answer RemoteAnswer
	body   returned
	quit   chan struct{}
}

// silence bounds how long a conversation waits for the body after a remote picker's pick. The
// protocol requires pickers to send the body back, but some do not.
const silence = 250 * time.Millisecond

type received struct {
	message encoded
	err     error
}

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
		done, err := c.take(r)
		if err != nil {
			return RemoteAnswer{}, err
		}
		if c.body.begun { // even if this message also has the answer
			c.peer.returns.Store(true)
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
		}
	}
	return RemoteAnswer{}, fmt.Errorf("no pick in %d messages", most)
}

func (c *conversation) send() error {
	headers, err := forwardHeaders(c.q.Headers, len(c.q.Body) == 0)
	if err == nil {
		err = c.stream.Send(headers)
	}
	if err != nil {
		return fmt.Errorf("headers: %w", err)
	}
	body := c.q.Body.Reader()
	defer func() { _ = body.Close() }()
	for body.Remaining() > 0 {
		chunk := make([]byte, min(body.Remaining(), MaxChunk))
		_, _ = io.ReadFull(body, chunk)
		m := &extprocv3.ProcessingRequest_RequestBody{
			RequestBody: &extprocv3.HttpBody{Body: chunk, EndOfStream: body.Remaining() == 0},
		}
		if c.stream.Send(&extprocv3.ProcessingRequest{Request: m}) != nil {
			break // RecvMsg returns the remote picker's answer or error
		}
	}
	return nil
}

// receive reads a remote picker's messages until the call ends. It also reads messages after the
// answer: a remote picker that cannot send them would not read the response headers. receive ends
// the call if all messages exceed the size of the body and one more message.
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
		var r received
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

func (c *conversation) take(r received) (done bool, err error) {
	var m remoteMessage
	if r.err == nil {
		m, r.err = c.read(r.message)
	}
	switch {
	case r.err != nil && len(c.answer.Endpoints) > 0 && !c.body.begun:
		return true, nil // the picker does not return the body
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
	case m.problem != nil:
		return false, m.problem
	}
	if len(c.answer.Endpoints) == 0 {
		c.answer.Endpoints = m.endpoints
	}
	// Some pickers acknowledge bodies without returning them.
	end := len(c.q.Body) == 0 || m.body && m.chunk == nil && !c.body.begun
	if m.chunk != nil {
		if err := c.body.write(m.chunk.GetBody()); err != nil {
			return false, err
		}
		last := m.chunk.GetEndOfStream()
		if end = last || end; last {
			if err := c.body.end(); err != nil {
				return false, err
			}
			c.answer.Changes.body, c.answer.Changes.replaced = c.body.own, c.body.changed
		}
	}
	return end && len(c.answer.Endpoints) > 0, nil
}

const (
	maxEndpoints    = 16       // further endpoints are dropped
	maxEndpointText = 64       // bytes; an IPv6 address with a port has at most 47
	maxImmediate    = 64 << 10 // bytes
	maxMessages     = 64       // before the pick
)

func endpoints(list string) []string {
	out := strings.SplitN(list, ",", maxEndpoints+1)
	out = out[:min(len(out), maxEndpoints)]
	for i, text := range out {
		out[i] = strings.Clone(text[:min(len(text), maxEndpointText)]) // frees the list, which may be long
	}
	return out
}

func forwardHeaders(m *Message, end bool) (*extprocv3.ProcessingRequest, error) {
	r := &extprocv3.ProcessingRequest{}
	if err := proto.Unmarshal(m.raw.Materialize(), r); err != nil {
		return nil, err
	}
	if r.ProtocolConfig == nil {
		r.ProtocolConfig = &extprocv3.ProtocolConfiguration{}
	}
	r.ProtocolConfig.RequestBodyMode = filterv3.ProcessingMode_FULL_DUPLEX_STREAMED
	r.ProtocolConfig.ResponseBodyMode = filterv3.ProcessingMode_NONE
	if headers := r.GetRequestHeaders(); headers != nil && end {
		headers.EndOfStream = true
	}
	return r, nil
}

type remoteTracker struct {
	stream extprocv3.ExternalProcessor_ProcessClient
	cancel func()
	remote *Remote

	mu    sync.Mutex
	ended bool
}

func (t *remoteTracker) Response(r Response) Header {
	status := &corev3.HeaderValue{Key: ":status", RawValue: fmt.Append(nil, r.Status)}
	m := &extprocv3.ProcessingRequest{Request: &extprocv3.ProcessingRequest_ResponseHeaders{
		ResponseHeaders: &extprocv3.HttpHeaders{Headers: &corev3.HeaderMap{Headers: []*corev3.HeaderValue{status}}},
	}}
	if r.Served != "" {
		served := &structpb.Struct{Fields: map[string]*structpb.Value{keyServed: structpb.NewStringValue(r.Served)}}
		m.MetadataContext = &corev3.Metadata{
			FilterMetadata: map[string]*structpb.Struct{t.remote.names.Namespace: served},
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.ended {
		_ = t.stream.Send(m) // fails if the remote picker has ended and needs no report
	}
	return Header{}
}

// Begun does nothing: a remote picker gets no response bodies.
func (*remoteTracker) Begun() {}

// End may be called from any goroutine, and repeatedly.
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

type encoded []byte

type discarded int

type remoteMessage struct {
	endpoints []string
	problem   error
	immediate []byte
	status    int
	timeout   time.Duration
	body      bool
	chunk     *extprocv3.StreamedBodyResponse
}

// read decodes a message and adds its header changes to the answer. To bound memory, a Remote
// decodes one message at a time: small fields are many times larger after decoding.
func (c *conversation) read(b encoded) (m remoteMessage, err error) {
	c.remote.decoding.Lock()
	defer c.remote.decoding.Unlock()
	var r extprocv3.ProcessingResponse
	if err := proto.Unmarshal(b, &r); err != nil {
		return m, fmt.Errorf("ProcessingResponse: %w", err)
	}
	if i := r.GetImmediateResponse(); i != nil {
		m.status = int(i.GetStatus().GetCode())
		m.immediate, err = proto.Marshal(i)
		return m, err
	}
	if m.timeout = r.GetOverrideMessageTimeout().AsDuration(); m.timeout > 0 {
		return m, nil // gateways ignore the other fields of such a message
	}
	common := r.GetRequestHeaders().GetResponse()
	if body := r.GetRequestBody(); body != nil {
		m.body, common = true, body.GetResponse()
	}
	m.chunk = common.GetBodyMutation().GetStreamedResponse()
	named := destination(&r, common.GetHeaderMutation(), &c.remote.names)
	if named != "" {
		m.endpoints = endpoints(named)
	}
	m.problem = c.answer.Changes.add(common.GetHeaderMutation(), &c.remote.names)
	return m, nil
}

func destination(r *extprocv3.ProcessingResponse, mutation *extprocv3.HeaderMutation, names *Names) (named string) {
	namespace := r.GetDynamicMetadata().GetFields()[names.Namespace].GetStructValue()
	if named = namespace.GetFields()[names.Destination].GetStringValue(); named != "" {
		return named
	}
	for _, option := range mutation.GetSetHeaders() {
		if strings.EqualFold(option.GetHeader().GetKey(), names.Destination) {
			named = string(headerValue(option.GetHeader()))
		}
	}
	return named
}

// headerValue returns raw_value, or value as older pickers may set.
func headerValue(h *corev3.HeaderValue) []byte {
	if len(h.GetRawValue()) > 0 {
		return h.GetRawValue()
	}
	return []byte(h.GetValue())
}
