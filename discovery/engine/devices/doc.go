// Package devices decides which accelerators of this machine a model server gets, and whether the
// machine has enough cores and main memory for the server's reservation. Callers pass the list of
// devices, the devices that processes hold, and the requests of replicas. They start the process
// with the environment variables of its Result.
//
// A Hold identifies a device by its UUID. A process gets indexes in the order of the PCI bus,
// because some engines fail on UUIDs. A whole device serves one replica. Fractions share a device
// until their sum is 1. Fractions are not isolated: they divide a device's memory only if each
// engine respects its own memory limit.
//
// Invariants: Allocate has no side effects, and its result does not depend on the order of its
// arguments. A replica gets all that it requests, or nothing and a reason. A replica keeps its
// devices while they exist. The shares of a device do not exceed 1, and the reserved cores and
// memory do not exceed the host's, unless the Holds already exceed them. Only List executes a
// program. Its time and output are bounded.
//
// Tests: go test ./discovery/engine/devices
package devices
