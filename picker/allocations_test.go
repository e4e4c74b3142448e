package picker

import (
	"context"
	"io"
	"testing"

	filterv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"

	"github.com/penstock-project/penstock/picker/extproc"
)

// memoryStream is a stream whose messages have arrived, and whose answers go nowhere.
type memoryStream struct {
	grpc.ServerStream
	ctx      context.Context
	codec    encoding.CodecV2
	messages []mem.BufferSlice
	next     int
	answers  int
}

func (s *memoryStream) Context() context.Context { return s.ctx }

func (s *memoryStream) RecvMsg(m any) error {
	if s.next == len(s.messages) {
		return io.EOF
	}
	s.next++
	return s.codec.Unmarshal(s.messages[s.next-1], m)
}

func (s *memoryStream) SendMsg(m any) error {
	s.answers++
	_, err := s.codec.Marshal(m)
	return err
}

// handler receives the service's handler of streams in place of a gRPC server.
type handler struct {
	grpc.ServiceRegistrar
	server  any
	process grpc.StreamHandler
}

func (h *handler) RegisterService(d *grpc.ServiceDesc, server any) {
	if d.ServiceName == extproc.ServiceName {
		h.server, h.process = server, d.Streams[0].Handler
	}
}

// BenchmarkPickAllocations counts what a pick allocates beside gRPC: from the bytes of its messages to the bytes of its answers.
func BenchmarkPickAllocations(b *testing.B) {
	for _, body := range []Body{BodyNone, BodyPrompts} {
		b.Run("body="+string(body), func(b *testing.B) {
			p := runPicker(b, Config{})
			setPools(b, p, Pool{Name: "ns/pool", Body: body, Fallbacks: 2, Endpoints: specs("10.0.0.1:80", "10.0.0.2:80", "10.0.0.3:80", "10.0.0.4:80")})
			var h handler
			p.Register(&h)
			mode := filterv3.ProcessingMode_NONE
			if body != BodyNone {
				mode = filterv3.ProcessingMode_BUFFERED
			}
			ctx := metadata.NewIncomingContext(context.Background(), metadata.Pairs("x-penstock-pool", "ns/pool"))
			s := &memoryStream{ctx: ctx, codec: extproc.Codec()}
			for _, m := range encoded(b, mode, 1<<10) {
				s.messages = append(s.messages, mem.BufferSlice{mem.SliceBuffer(m)})
			}
			b.ReportAllocs()
			for b.Loop() {
				s.next = 0
				if err := h.process(h.server, s); err != nil {
					b.Fatal(err)
				}
			}
			if s.answers == 0 {
				b.Fatal("no answers")
			}
		})
	}
}
