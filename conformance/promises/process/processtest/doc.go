// Package processtest has the parts that tests of whole processes share: a folder that penstock
// reads, ports, and a wait that polls. The rigs of conformance/features, promises/attacks and
// promises/principals embed it.
//
// Invariants: a port is assigned once in a test binary. A file of the folder changes in one step.
// Waits only depend on time by their deadline.
//
// Tests: run the packages that use it.
package processtest
