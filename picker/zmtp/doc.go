// Package zmtp implements the part of ZeroMQ's wire protocol, ZMTP 3.0 over TCP, that model
// servers' KV events need: the mechanism NULL, and the socket types PUB, SUB, DEALER and ROUTER.
//
// It replaces github.com/go-zeromq/zmq4, which allocates memory of any length that its peer
// announces, and has data races in its reconnection. Tests compare the two.
//
// A Conn is one connection; the caller does reconnection, queues and topics. Package kvevents
// subscribes with it, and the simulated model server publishes (Publisher).
//
// Invariants:
//   - A message is bounded (Limits.Message), and its memory grows with the bytes that arrive, not
//     with the announced length.
//   - Connections with the same Limits read few large messages at a time, and even fewer of one
//     peer.
//   - A message is complete within Limits.Timeout after its begin, or the connection ends. Time
//     between messages is not limited, and heartbeats delay no message. A peer that sends too many
//     commands is disconnected.
//
// Tests: go test ./picker/zmtp; FuzzConn_Reads feeds broken bytes.
package zmtp
