//go:build !race

package picker

import (
	"context"
	"io"
	"strconv"
	"testing"
	"unsafe"

	filterv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/tap"

	"github.com/penstock-project/penstock/picker/accesslog"
	"github.com/penstock-project/penstock/picker/extproc"
	"github.com/penstock-project/penstock/picker/flow"
)

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
	bufs, err := s.codec.Marshal(m)
	bufs.Free()
	return err
}

// handler is a grpc.ServiceRegistrar that only keeps the service's stream handler. So a test can
// call the handler without a gRPC server.
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

// settled returns a function that makes one ext_proc call of the picker without gRPC, with encoded
// messages. An access log entry then ends the request, as for Gateways.
func settled(t testing.TB, body Body, control *FlowControl) (call func()) {
	p := runPicker(t, Config{})
	setPools(t, p,
		Pool{ID: poolID("ns/pool"), Body: body, Fallbacks: 2, FlowControl: control,
			Endpoints: specs("10.0.0.1:80", "10.0.0.2:80", "10.0.0.3:80", "10.0.0.4:80")})
	var h handler
	p.Register(&h)
	mode := filterv3.ProcessingMode_NONE
	if body != BodyNone {
		mode = filterv3.ProcessingMode_BUFFERED
	}
	ctx, err := extproc.ReadCall(t.Context(), &tap.Info{
		FullMethodName: "/" + extproc.ServiceName + "/Process", Header: metadata.Pairs("x-penstock-pool", "ns/pool"),
	})
	if err != nil {
		t.Fatal(err)
	}
	s := &memoryStream{ctx: ctx, codec: extproc.Codec()}
	for _, m := range encoded(t, mode, 4<<10) {
		s.messages = append(s.messages, mem.BufferSlice{mem.NewBuffer(&m, mem.NopBufferPool{})})
	}
	entry := accesslog.Entry{Served: "10.0.0.1:80", Status: 200}
	var id []byte
	number, wanted := uint64(0), s.answers
	return func() {
		s.next = 0
		if err := h.process(h.server, s); err != nil {
			t.Fatal(err)
		}
		if wanted += len(s.messages); s.answers != wanted {
			t.Fatalf("%d answers, want %d", s.answers, wanted)
		}
		number++
		id = strconv.AppendUint(append(append(id[:0], p.Owner()...), '.'), number, 36)
		entry.Lease = unsafe.String(&id[0], len(id)) // the entry is read during the call only
		if p.Log(entry); p.leases.Len() != 0 {
			t.Fatalf("the request %s has not ended", entry.Lease)
		}
	}
}

// TestPick_AllocatesNothing counts the allocations of a pick and its request's end, without gRPC.
// Picks with verdicts are too rare to count. The race detector is excluded: it makes a sync.Pool
// drop values.
func TestPick_AllocatesNothing(t *testing.T) {
	for _, body := range []Body{BodyNone, BodyPrompts} {
		for name, control := range map[string]*FlowControl{
			"without flow control": nil, "with flow control": {Saturation: flow.Saturation{Queue: 1e9}},
		} {
			call := settled(t, body, control)
			// After these calls, the ring of notes and the tables of prefixes no longer grow.
			for range 2 * maxNotes {
				call()
			}
			if n := testing.AllocsPerRun(5000, call); n != 0 {
				t.Errorf("body %q, %s: %v allocations, want 0", body, name, n)
			}
		}
	}
}

func BenchmarkPickAllocations(b *testing.B) {
	for _, body := range []Body{BodyNone, BodyPrompts} {
		b.Run("body="+string(body), func(b *testing.B) {
			call := settled(b, body, nil)
			b.ReportAllocs()
			for b.Loop() {
				call()
			}
			b.ReportMetric(0, "limit-allocs/op")
		})
	}
}
