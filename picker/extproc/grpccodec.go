package extproc

import (
	"fmt"

	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // registers the codec for all other messages
	"google.golang.org/grpc/mem"
)

// Codec returns the gRPC server's codec, for grpc.ForceServerCodecV2. It encodes ext_proc messages
// of gateways itself, and other messages as proto messages.
func Codec() encoding.CodecV2 { return codec{proto: encoding.GetCodecV2("proto")} }

type codec struct{ proto encoding.CodecV2 }

func (codec) Name() string { return "proto" }

func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	if r, ok := v.(*reply); ok {
		return r.bufs, nil
	}
	return c.proto.Marshal(v)
}

func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	switch m := v.(type) {
	case *Message:
		if err := m.unmarshal(data); err != nil {
			return fmt.Errorf("ProcessingRequest: %w", err)
		}
	case *encoded:
		*m = data.Materialize()
	case *discarded:
		*m = discarded(data.Len())
	default:
		return c.proto.Unmarshal(data, v)
	}
	return nil
}
