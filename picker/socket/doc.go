// Package socket reads and writes a picker's TCP connections without Go's scheduler taking part.
//
// A system call informs the scheduler when it begins and ends, because it may block. Those of net.Conn never do: its sockets are non-blocking,
// and a goroutine that must wait does so in Go's poller. Where a process works in bursts of microseconds, as a picker does between two requests
// of an Envoy, that is expensive all the same: the first system call after each moment without work wakes the thread that watches over the
// others (sysmon), which then looks around every 20 us. By profiles behind an Envoy with one saturated worker that took 14 % of a picker's CPU,
// where an echo spends 11 % so. Without it a pick by headers has 2.0 voluntary context switches, and had 4.3.
//
// The price: while nothing else makes a system call, that thread sleeps until the next timer, which is 50 ms away at most in a pool that picks.
// A goroutine that computes for longer than 10 ms is preempted that much later. The 99th percentile of Envoy's calls at half of saturation was
// 1.03 times the echo's on a busy machine (pick_p99).
//
// Invariants:
//   - A connection behaves as *net.TCPConn does, deadlines and errors included. A gRPC server finds ReadOnReady in it, which takes a buffer only
//     when there is something to read.
//   - No system call here blocks, and none moves more than maxCall bytes: meanwhile no other goroutine runs on its processor, and a garbage
//     collection waits.
//   - Connections other than TCP are left as they are, and so are all on other systems than Linux, and under the race detector, which learns from
//     package syscall alone that what was sent happened before what is received.
//
// Only packages picker and endpoint call it. Tests: go test ./picker/socket.
package socket
