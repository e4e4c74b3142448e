// Package processtest has the common parts of tests that run processes: a folder that penstock
// reads, ports, and a wait that polls. The rigs of conformance/features, promises/attacks and
// promises/principals embed Rig.
package processtest
