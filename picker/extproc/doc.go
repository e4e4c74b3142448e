// Package extproc implements Envoy's external processing protocol for the picker. It reads the few
// fields that a pick needs, keeps the request's body in gRPC's buffers, and encodes responses
// without building messages.
//
// The package owns the wire: the response to each message in every body mode (NONE, BUFFERED,
// BUFFERED_PARTIAL, STREAMED, FULL_DUPLEX_STREAMED). The Picker in its Config decides the contents
// of responses. Remote is the client side of the protocol: it calls another picker. Only package
// picker calls this package.
//
// Invariants:
//   - Only splices change a body, and only gRPC copies it.
//   - Every path frees all buffers of a Message (Message.Free).
//   - A pick allocates nothing here. An exchange and its Request end with the call. A reply ends
//     when gRPC has sent it, which may be later.
//   - A stream that Envoy resets is a request that has ended, not an error.
//   - Other services on the same gRPC server use the ordinary proto codec, to which Codec passes
//     their messages.
//
// Cost of a call, profiled behind an Envoy with one saturated worker, on connections of package
// net: a pick by headers takes 50 us. grpc-go takes 33 of them, measured with a handler that
// returns constants with this codec (0.67 of an echo with the default codec; 0.61 for a body of 1
// KB, 0.43 for 100 KB and 400 KB). About half of the 33 us are wake-ups of the connection's reader,
// the stream's goroutine and the writer, and the scheduler's search for work between them.
// Connections of package socket save 0.1 to 0.2 of an echo. No handler can reduce the rest of
// grpc-go's time. NumStreamWorkers saves 0.12 of an echo. Larger read buffers, no write buffer, or
// ending a call with its pick have no measurable effect. The handler takes 3 us in a loop, and
// several times as long when other processes displace its memory from the caches. Reading the
// servers' pages 20 times a second takes 0.05 to 0.08 of an echo.
//
// Tests: go test ./picker/extproc. FuzzMessage_EqualsGenerated, FuzzAnswer_EqualsGenerated and
// FuzzEcho_EqualsGenerated compare the codec with the generated messages, which Remote uses.
package extproc
