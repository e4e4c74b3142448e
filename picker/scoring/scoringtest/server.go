package scoringtest

import (
	"context"
	"math"
	"net"
	"net/netip"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
)

// Start serves a scorer in cleartext until the test ends, and returns its address. score receives
// an encoded ScoreRequest and returns an encoded ScoreResponse.
func Start(t testing.TB, score func(context.Context, []byte) ([]byte, error)) netip.AddrPort {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.ForceServerCodecV2(raw{}))
	server.RegisterService(&grpc.ServiceDesc{ServiceName: "penstock.scoring.v1.Scorer", HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{
			MethodName: "Score",
			Handler: func(_ any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any,
				error) {
				var request []byte
				if err := decode(&request); err != nil {
					return nil, err
				}
				answer, err := score(ctx, request)
				return &answer, err
			},
		}}}, nil)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return netip.MustParseAddrPort(listener.Addr().String())
}

// Fields returns the encoded values of a message's field. The value of a string or a message is its
// content, without the length.
func Fields(m []byte, number int) (values [][]byte) {
	for len(m) > 0 {
		field, kind, n := protowire.ConsumeTag(m)
		if n < 0 {
			return values
		}
		size := protowire.ConsumeFieldValue(field, kind, m[n:])
		if size < 0 {
			return values
		}
		if value := m[n : n+size]; int(field) == number {
			if kind == protowire.BytesType {
				value, _ = protowire.ConsumeBytes(value)
			}
			values = append(values, value)
		}
		m = m[n+size:]
	}
	return values
}

// Scores encodes a ScoreResponse.
func Scores(scores ...float64) []byte {
	var packed []byte
	for _, s := range scores {
		packed = protowire.AppendFixed64(packed, math.Float64bits(s))
	}
	return protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), packed)
}

type raw struct{}

func (raw) Name() string { return "proto" }

func (raw) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(*v.(*[]byte))}, nil
}

func (raw) Unmarshal(data mem.BufferSlice, v any) error {
	*v.(*[]byte) = data.Materialize()
	return nil
}
