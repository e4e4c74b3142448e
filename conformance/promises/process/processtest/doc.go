// Package processtest has the parts that tests of whole processes share: a folder that penstock
// reads, ports, and a wait that polls. The rigs of conformance/features, promises/attacks and
// promises/principals embed it.
//
// Invariants: a test binary assigns each port once. A file of the folder changes in one step. A
// wait ends with its condition, or with the deadline.
//
// Tests: run the packages that use it.
package processtest
