package simulate

import (
	"context"
	"fmt"
	"io"
	"sync"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// stream is one call of the streaming method over a transport.
type stream struct {
	over               *transport
	name               string
	codec              encoding.CodecV2
	most               int
	ctx, served        context.Context
	cancel             context.CancelFunc // cancels served
	toClient, toServer half

	mu   sync.Mutex
	sent map[string]int // number of messages, by direction and topic
}

func (t *transport) stream(ctx context.Context, codec encoding.CodecV2, most int) grpc.ClientStream {
	t.mu.Lock()
	t.count++
	s := &stream{over: t, name: fmt.Sprintf("%s.%d", t.name, t.count), codec: codec, most: most, sent: map[string]int{}}
	t.streams = append(t.streams, s)
	broken := t.err
	t.mu.Unlock()
	s.toClient.ready, s.toServer.ready = make(chan struct{}, 1), make(chan struct{}, 1)
	s.ctx = peer.NewContext(ctx, &peer.Peer{Addr: listener{t.server.address}, AuthInfo: t.clientSees})
	s.served, s.cancel = context.WithCancel(peer.NewContext(context.Background(),
		&peer.Peer{Addr: listener{t.client.id}, AuthInfo: t.serverSees}))
	if broken != nil {
		s.toClient.fail(broken)
	}
	to := t.server.proc.node
	t.net.send(t.client, to, "", s.name+" begins", func() { t.server.handle(s) })
	context.AfterFunc(ctx, func() { t.net.send(t.client, to, "", s.name+" is cancelled", s.cancel) })
	return &atClient{s}
}

// handle serves a stream, unless the server has stopped.
func (s *server) handle(on *stream) {
	select {
	case <-s.stopped:
		on.cancel()
		return
	default:
	}
	s.net.mu.Lock()
	s.serving[on] = true
	s.net.mu.Unlock()
	s.running.Go(func() {
		err := s.stream.Handler(s.impl, &atServer{on})
		on.cancel()
		s.net.mu.Lock()
		delete(s.serving, on)
		s.net.mu.Unlock()
		s.net.send(s.proc, on.over.client.node, "", on.name+" ends", func() {
			if err == nil {
				on.toClient.fail(io.EOF)
			} else {
				on.toClient.fail(status.Convert(err).Err())
			}
		})
	})
}

// send sends a message to the other end. Each topic is a queue of its own.
func (s *stream) send(from *process, to *node, direction string, m any, into *half) error {
	topic := ""
	if r, ok := m.(interface{ GetTypeUrl() string }); ok {
		topic = r.GetTypeUrl()
	}
	if r, ok := m.(*discoveryv3.DeltaDiscoveryResponse); ok {
		m = from.node.lie(s.name, r)
	}
	raw, err := encoding.GetCodecV2(proto.Name).Marshal(m)
	if err != nil {
		return err
	}
	data := raw.Materialize()
	raw.Free()
	queue := s.name + direction + topic
	s.mu.Lock()
	s.sent[queue]++
	name := fmt.Sprintf("%s %d", queue, s.sent[queue])
	s.mu.Unlock()
	s.over.net.send(from, to, queue, name, func() { into.push(data) })
	return nil
}

// half has the messages that have arrived at one end of a stream and were not received yet.
type half struct {
	mu    sync.Mutex
	items [][]byte
	err   error // why the stream ended, after the messages
	ready chan struct{}
}

func (h *half) push(data []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.err == nil {
		h.items = append(h.items, data)
	}
	h.wake()
}

func (h *half) fail(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.err == nil {
		h.err = err
	}
	h.wake()
}

func (h *half) wake() {
	select {
	case h.ready <- struct{}{}:
	default:
	}
}

// receive waits for the next message.
func (h *half) receive(ctx context.Context) ([]byte, error) {
	for {
		h.mu.Lock()
		if len(h.items) > 0 {
			data := h.items[0]
			h.items = h.items[1:]
			h.mu.Unlock()
			return data, nil
		}
		err := h.err
		h.mu.Unlock()
		if err != nil {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, status.FromContextError(ctx.Err()).Err()
		case <-h.ready:
		}
	}
}

// atClient is the subscriber's end of a stream, a grpc.ClientStream.
type atClient struct{ *stream }

func (s *atClient) Header() (metadata.MD, error) { return nil, nil }
func (s *atClient) Trailer() metadata.MD         { return nil }
func (s *atClient) CloseSend() error             { return nil }
func (s *atClient) Context() context.Context     { return s.ctx }

func (s *atClient) SendMsg(m any) error {
	if s.ctx.Err() != nil || s.over.broken() != nil {
		return io.EOF
	}
	return s.send(s.over.client, s.over.server.proc.node, ">", m, &s.toServer)
}

func (s *atClient) RecvMsg(m any) error {
	data, err := s.toClient.receive(s.ctx)
	if err != nil {
		return err
	}
	if len(data) > s.most {
		return status.Errorf(codes.ResourceExhausted, "a message of %d bytes", len(data))
	}
	if err := s.codec.Unmarshal(mem.BufferSlice{mem.SliceBuffer(data)}, m); err != nil {
		return status.Error(codes.Internal, err.Error())
	}
	return nil
}

// atServer is the publisher's end of a stream, a grpc.ServerStream.
type atServer struct{ *stream }

func (s *atServer) SetHeader(metadata.MD) error  { return nil }
func (s *atServer) SendHeader(metadata.MD) error { return nil }
func (s *atServer) SetTrailer(metadata.MD)       {}
func (s *atServer) Context() context.Context     { return s.served }

func (s *atServer) SendMsg(m any) error {
	if s.served.Err() != nil {
		return status.FromContextError(s.served.Err()).Err()
	}
	return s.send(s.over.server.proc, s.over.client.node, "<", m, &s.toClient)
}

func (s *atServer) RecvMsg(m any) error {
	data, err := s.toServer.receive(s.served)
	if err != nil {
		return err
	}
	return encoding.GetCodecV2(proto.Name).Unmarshal(mem.BufferSlice{mem.SliceBuffer(data)}, m)
}
