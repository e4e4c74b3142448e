// Package zmtp is the part of ZeroMQ's wire protocol, ZMTP 3.0 over TCP, that model servers' KV
// events need: the mechanism NULL, and the socket types PUB, SUB, DEALER and ROUTER.
//
// It replaces github.com/go-zeromq/zmq4, which allocates a frame of any length that its peer
// announces, and has data races in its reconnection. Tests compare with it.
//
// A Conn is one connection; reconnection, queues and topics are the caller's. Package kvevents
// subscribes with it, and the simulated model server publishes (Publisher).
//
// Invariants:
//   - A message is bounded (Limits.Message), and its memory grows with the bytes that arrive, not
//     with the announced length.
//   - Connections with the same Limits read few large messages at a time, and fewer per peer.
//   - A message arrives within Limits.Timeout after its begin, or the connection ends. There is no
//     limit between messages, and heartbeats delay no message; a peer that floods with commands is
//     disconnected.
//
// Tests: go test ./picker/zmtp; FuzzConn_Reads feeds broken bytes.
package zmtp
