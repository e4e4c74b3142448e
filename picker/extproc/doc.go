// Package extproc implements Envoy's external processing protocol for the picker. It reads the few
// fields that a pick needs, keeps bodies in gRPC's buffers, and encodes responses without building
// messages. Remote is the client side of the protocol: it calls another picker. Only package picker
// calls this package.
//
// Every path frees all buffers of a Message (Message.Free). A pick allocates nothing here. A stream
// that Envoy resets is a request that has ended, not an error.
//
// Behind an Envoy with one saturated worker, a pick by headers takes 50 us; grpc-go takes 33 us of
// these.
package extproc
