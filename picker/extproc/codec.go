package extproc

import (
	"fmt"

	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // registers the codec that everything else uses
	"google.golang.org/grpc/mem"
)

// Codec is the gRPC server's codec: external processing messages by hand, everything else (health, reflection, the access
// log) as ordinary proto messages. For grpc.ForceServerCodecV2.
func Codec() encoding.CodecV2 { return codec{proto: encoding.GetCodecV2("proto")} }

// codec without proto is for clients, which handle no other message.
type codec struct{ proto encoding.CodecV2 }

// Name is the content subtype that clients already send.
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
	case *remoteMessage:
		if err := m.unmarshal(data); err != nil {
			return fmt.Errorf("ProcessingResponse: %w", err)
		}
	default:
		return c.proto.Unmarshal(data, v)
	}
	return nil
}
