package server

import (
	"fmt"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/penstock-project/penstock/xds/cache"
	"github.com/penstock-project/penstock/xds/publish"
)

// codec is the protobuf codec, but a *message is already encoded and a *deltaRequest decodes
// itself.
type codec struct{ encoding.CodecV2 }

func newCodec() codec { return codec{encoding.GetCodecV2(proto.Name)} }

func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	if m, ok := v.(*message); ok {
		return m.data, nil
	}
	out, err := c.CodecV2.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	return out, nil
}

func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	if r, ok := v.(*deltaRequest); ok {
		return r.decode(data)
	}
	if err := c.CodecV2.Unmarshal(data, v); err != nil {
		return fmt.Errorf("decode: %w", err)
	}
	return nil
}

type message struct {
	data mem.BufferSlice
	size int
}

const (
	fieldVersion = 1
	fieldTypeURL = 4
	deltaNonce   = 5
	deltaRemoved = 6
	stateNonce   = 5
)

func encodeDelta(r *publish.Response) *message {
	return encode(r, (*cache.Entry).Delta, deltaNonce)
}

func encodeState(r *publish.Response) *message {
	return encode(r, (*cache.Entry).StateOfTheWorld, stateNonce)
}

func encode(r *publish.Response, head func(*cache.Entry) []byte, nonce protowire.Number) *message {
	m := newMessage(r, head)
	own := appendString(nil, fieldVersion, r.Version)
	own = appendString(own, fieldTypeURL, r.Type.URL())
	own = appendString(own, nonce, r.Nonce)
	for _, name := range r.Removed {
		own = appendString(own, deltaRemoved, name)
	}
	m.add(own)
	return m
}

func newMessage(r *publish.Response, head func(*cache.Entry) []byte) *message {
	buffers := 1
	for _, e := range r.Upserts {
		buffers += 1 + len(e.Parts)
	}
	m := &message{data: make(mem.BufferSlice, 0, buffers)}
	for _, e := range r.Upserts {
		m.add(head(e))
		for _, p := range e.Parts {
			m.add(p.Body)
		}
	}
	return m
}

func (m *message) add(b []byte) {
	if len(b) > 0 {
		m.data = append(m.data, mem.SliceBuffer(b))
		m.size += len(b)
	}
}

func appendString(b []byte, field protowire.Number, s string) []byte {
	if s == "" {
		return b
	}
	return protowire.AppendString(protowire.AppendTag(b, field, protowire.BytesType), s)
}
