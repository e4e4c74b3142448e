// Package extproc speaks Envoy's external processing protocol for the picker: it reads the few fields that a pick needs,
// keeps the request's body as the buffers that gRPC received, and writes answers without building messages first.
//
// The package owns the wire: which message may be answered by which, in every body mode (NONE, BUFFERED,
// BUFFERED_PARTIAL, STREAMED, FULL_DUPLEX_STREAMED). What to answer is decided by the Picker that its Config names. Remote
// is the protocol's other side: it asks another picker. Only package picker calls this one.
//
// Invariants:
//   - A body is never changed, and never copied but by gRPC itself.
//   - Every buffer that a Message holds is given back on every way out (Message.Free).
//   - A stream that Envoy resets is a request that ended, not an error.
//   - Services on the same gRPC server other than this one use the ordinary proto codec; Codec falls back to it.
//
// Tests: go test ./picker/extproc; the codec is compared with the generated messages by FuzzMessage, FuzzAnswer, FuzzEcho and
// FuzzRemoteMessage.
package extproc
