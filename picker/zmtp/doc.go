// Package zmtp implements the part of ZeroMQ's wire protocol, ZMTP 3.0 over TCP, that model
// servers' KV events need. It replaces github.com/go-zeromq/zmq4, which allocates as much memory as
// its peer announces. Package kvevents subscribes with this package, and the simulated model server
// publishes with it.
//
// Invariants: the size of a message is bounded (Limits), and its memory grows only with the bytes
// that arrive. If a message is not complete within Limits.Timeout after its first byte, the
// connection ends. A peer that sends too many commands is disconnected. Heartbeats delay no
// message.
package zmtp
