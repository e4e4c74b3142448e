// Package zmtp is the part of ZeroMQ's wire protocol, ZMTP 3.0 over TCP, that KV events need: the
// mechanism NULL, and connections of the socket types PUB, SUB, DEALER and ROUTER. Model servers
// publish KV events so.
//
// It is used in place of github.com/go-zeromq/zmq4 because that library allocates a frame of
// whatever length its peer announces, and its reconnection has data races. Tests compare with it.
//
// A Conn is one connection; reconnection, queues and topics are the caller's. Package kvevents
// subscribes with it, and the simulated model server publishes (Publisher).
//
// Invariants:
//   - A message is bounded (Limits.Message), and memory for it grows with the bytes that arrive,
//     not with the announced length.
//   - Of all connections with the same Limits, few read a large message at a time, and of one peer
//     fewer.
//   - A message that has begun arrives within Limits.Timeout, or the connection ends. Between
//     messages there is no limit, and heartbeats keep no message waiting; a peer that floods with
//     commands is disconnected.
//
// Tests: go test ./picker/zmtp; FuzzConn_Reads feeds broken bytes.
package zmtp
