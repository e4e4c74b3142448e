// Package devices decides which accelerators of this machine a model server gets, and whether the
// machine has room for what the server reserves of its cores and main memory. Callers pass what
// they know: the list of devices, what processes hold, and what replicas request. They pass the
// environment of Result to the process.
//
// A device is remembered by its UUID. A process gets indexes in the order of the PCI bus, because
// some engines fail on UUIDs. Whole devices are exclusive. Fractions share a device until their
// sum is 1. This divides memory only as far as an engine respects its own limit: it isolates
// nothing.
//
// Invariants: Allocate is pure, and its result does not depend on the order of its arguments. A
// replica gets all that it requests, or nothing and a reason. A replica keeps its devices while
// they exist. No device has a sum of shares above 1, and no sum of cores or memory exceeds the
// host's, unless holds exceed it already. Only List executes a program, whose time and output are
// bounded.
//
// Tests: go test ./discovery/engine/devices
package devices
