// Package zmtp implements the part of ZeroMQ's wire protocol, ZMTP 3.0 over TCP, that model
// servers' KV events need. It replaces github.com/go-zeromq/zmq4, which allocates memory of any
// length that its peer announces. Package kvevents subscribes, and the simulated model server
// publishes.
//
// Invariants: a message is bounded (Limits), and its memory grows with the bytes that arrive. A
// message is complete within Limits.Timeout after its beginning, or the connection ends. A peer
// that sends too many commands is disconnected. Heartbeats delay no message.
package zmtp
