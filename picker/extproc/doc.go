// Package extproc implements Envoy's external processing protocol for the picker: it reads the few
// fields that a pick needs, keeps the request's body as the buffers that gRPC received, and encodes
// responses without building messages first.
//
// The package owns the wire: which response each message gets in every body mode (NONE, BUFFERED,
// BUFFERED_PARTIAL, STREAMED, FULL_DUPLEX_STREAMED). The Picker in its Config decides the contents.
// Remote is the protocol's client side: it asks another picker. Only package picker calls this one.
//
// Invariants:
//   - A body is changed by splices alone, which leave all other bytes as they are, and only gRPC
//     itself copies it.
//   - Every buffer that a Message holds is freed on every path (Message.Free).
//   - A pick allocates nothing here. An exchange and its Request end with the call; a reply ends
//     when gRPC has sent it, which may be later.
//   - A stream that Envoy resets is a request that ended, not an error.
//   - Services on the same gRPC server other than this one use the ordinary proto codec; Codec
//     falls back to it.
//
// What a call costs, by profiles behind an Envoy with one saturated worker, on connections of
// package net: of 50 us for headers alone, 33 are grpc-go's own, measured with a handler that
// answers constants with this codec (0.67 of an echo with the default codec; 0.61 for a body of 1
// KB, 0.43 for 100 KB and for 400 KB). Of the 33, about half are wake-ups: of the connection's
// reader, of the stream's goroutine and of the writer, and the scheduler's search for work in
// between. Connections of package socket take 0.1 to 0.2 of an echo from that, and no handler
// brings a pick below the rest inside grpc-go. NumStreamWorkers saves 0.12 of an echo; larger read
// buffers, no write buffer, or ending a call with its pick change nothing that could be measured.
// The rest is the handler: it takes 3 us in a loop, and several times as much where other processes
// have displaced its memory from the caches. Reading the servers' pages 20 times a second takes
// 0.05 to 0.08 of an echo.
//
// Tests: go test ./picker/extproc; the codec for gateways is compared with the generated messages
// by FuzzMessage_EqualsGenerated, FuzzAnswer_EqualsGenerated and FuzzEcho_EqualsGenerated. Remote
// uses the generated messages.
package extproc
