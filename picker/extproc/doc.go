// Package extproc implements Envoy's external processing protocol for the picker: it reads the few fields that a pick needs,
// keeps the request's body as the buffers that gRPC received, and encodes responses without building messages first.
//
// The package owns the wire: which response each message gets in every body mode (NONE, BUFFERED, BUFFERED_PARTIAL,
// STREAMED, FULL_DUPLEX_STREAMED). The Picker in its Config decides the contents. Remote is the protocol's client side: it
// asks another picker. Only package picker calls this one.
//
// Invariants:
//   - A body is never changed, and only gRPC itself copies it.
//   - Every buffer that a Message holds is freed on every path (Message.Free).
//   - A stream that Envoy resets is a request that ended, not an error.
//   - Services on the same gRPC server other than this one use the ordinary proto codec; Codec falls back to it.
//
// Tests: go test ./picker/extproc; the codec is compared with the generated messages by FuzzMessage_EqualsGenerated, FuzzAnswer_EqualsGenerated, FuzzEcho_EqualsGenerated and
// FuzzRemoteMessage_EqualsGenerated.
package extproc
