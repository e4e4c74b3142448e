package picker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	filterv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
)

// echo is the server that a pick is compared with: it reads every message with the ordinary codec,
// and answers with an empty message.
type echo struct {
	extprocv3.UnimplementedExternalProcessorServer
}

func (echo) Process(stream extprocv3.ExternalProcessor_ProcessServer) error {
	for {
		m, err := stream.Recv()
		if err != nil {
			return nil
		}
		answer := &extprocv3.ProcessingResponse{
			Response: &extprocv3.ProcessingResponse_RequestHeaders{RequestHeaders: &extprocv3.HeadersResponse{}},
		}
		if m.GetRequestBody() != nil {
			answer.Response = &extprocv3.ProcessingResponse_RequestBody{RequestBody: &extprocv3.BodyResponse{}}
		}
		if err := stream.Send(answer); err != nil {
			return nil
		}
	}
}

// rawCodec lets the client send encoded messages, at the same low cost for the picker and echo.
type rawCodec struct{}

func (rawCodec) Name() string { return "proto" }
func (rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(*v.(*[]byte))}, nil
}
func (rawCodec) Unmarshal(mem.BufferSlice, any) error { return nil }

func encoded(b testing.TB, mode filterv3.ProcessingMode_BodySendMode, size int) [][]byte {
	b.Helper()
	var headers []*corev3.HeaderValue
	for _, name := range []string{":authority", ":path", ":method", ":scheme", "content-type", "user-agent",
		"x-request-id", "x-forwarded-for", "content-length", "accept"} {
		value := "a value of usual length"
		if name == ":path" {
			value = "/v1/chat/completions"
		}
		headers = append(headers, &corev3.HeaderValue{Key: name, RawValue: []byte(value)})
	}
	messages := []*extprocv3.ProcessingRequest{{
		Request: &extprocv3.ProcessingRequest_RequestHeaders{
			RequestHeaders: &extprocv3.HttpHeaders{Headers: &corev3.HeaderMap{Headers: headers}},
		},
		ProtocolConfig: &extprocv3.ProtocolConfiguration{RequestBodyMode: mode},
	}}
	if mode == filterv3.ProcessingMode_BUFFERED {
		body := `{"model":"m","stream":true,"messages":[{"role":"user","content":"` +
			strings.Repeat(`some words \n `, size/13) + `"}]}`
		messages = append(messages, &extprocv3.ProcessingRequest{Request: &extprocv3.ProcessingRequest_RequestBody{
			RequestBody: &extprocv3.HttpBody{Body: []byte(body), EndOfStream: true}}})
	}
	var out [][]byte
	for _, m := range messages {
		raw, err := proto.Marshal(m)
		if err != nil {
			b.Fatal(err)
		}
		out = append(out, raw)
	}
	return out
}

// oneRequest makes a whole ext_proc call as Envoy does: a stream, its messages, a reset.
func oneRequest(b *testing.B, conn *grpc.ClientConn, messages [][]byte) {
	ctx, cancel := context.WithCancel(metadata.AppendToOutgoingContext(context.Background(), "x-penstock-pool",
		"ns/pool"))
	defer cancel()
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true},
		"/envoy.service.ext_proc.v3.ExternalProcessor/Process", grpc.ForceCodecV2(rawCodec{}))
	if err != nil {
		b.Fatal(err)
	}
	for i := range messages {
		if err := stream.SendMsg(&messages[i]); err != nil {
			b.Fatal(err)
		}
		if err := stream.RecvMsg(nil); err != nil && !errors.Is(err, io.EOF) {
			b.Fatal(err)
		}
	}
}

func benchmarkConn(b *testing.B, server *grpc.Server) *grpc.ClientConn {
	b.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	go func() { _ = server.Serve(listener) }()
	b.Cleanup(server.Stop)
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = conn.Close() })
	return conn
}

// BenchmarkOverGRPC divides the time of a pick by the time of an echo with the same messages, and
// reports the quotient as "of-echo". Both times include the client. One request is in flight at a
// time.
func BenchmarkOverGRPC(b *testing.B) {
	p := runPicker(b, Config{})
	setPools(b, p, Pool{ID: poolID("ns/pool"), Strategy: "least-request", Body: BodyBuffered, Fallbacks: 2,
		Endpoints: specs("10.0.0.1:80", "10.0.0.2:80", "10.0.0.3:80", "10.0.0.4:80")})
	ours := grpc.NewServer(ServerOptions(8, nil)...)
	p.Register(ours)
	bare := grpc.NewServer(grpc.MaxRecvMsgSize(maxMessage))
	extprocv3.RegisterExternalProcessorServer(bare, echo{})
	pick, reference := benchmarkConn(b, ours), benchmarkConn(b, bare)
	for _, mode := range []filterv3.ProcessingMode_BodySendMode{
		filterv3.ProcessingMode_NONE, filterv3.ProcessingMode_BUFFERED,
	} {
		for _, size := range []int{1 << 10, 100 << 10, 400 << 10} {
			if mode == filterv3.ProcessingMode_NONE && size > 1<<10 {
				continue // in mode NONE, Envoy sends no body
			}
			messages := encoded(b, mode, size)
			b.Run(fmt.Sprintf("%s/%dKB", mode, size>>10), func(b *testing.B) {
				b.ReportAllocs()
				var other time.Duration
				n := 0
				for b.Loop() {
					oneRequest(b, pick, messages)
					b.StopTimer()
					started := time.Now()
					oneRequest(b, reference, messages)
					other += time.Since(started)
					n++
					b.StartTimer()
				}
				b.ReportMetric(float64(b.Elapsed())/float64(other), "of-echo")
				b.ReportMetric(float64(other.Nanoseconds())/float64(n), "echo-ns/op")
			})
		}
	}
}
