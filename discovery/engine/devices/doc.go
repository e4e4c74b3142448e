// Package devices decides which accelerators of this machine a model server gets. Callers pass what
// they know: the list of devices, what processes hold, and what replicas request. They pass the
// environment of Result to the process.
//
// A device is remembered by its UUID. A process gets indexes in the order of the PCI bus, because
// some engines fail on UUIDs. Whole devices are exclusive. Fractions share a device until their sum
// is 1. This divides memory only as far as an engine respects its own limit: it isolates nothing.
//
// Invariants: Allocate is pure, and its result does not depend on the order of its arguments. A
// replica keeps its devices while they exist. No device has a sum of shares above 1, unless holds
// exceed it already. Each replica without devices has a reason. Only List executes a program, whose
// time and output are bounded.
//
// Tests: go test ./discovery/engine/devices
package devices
