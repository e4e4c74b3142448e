// Package processtest has the parts that tests of whole processes share: a folder that penstock
// reads, ports, and a wait that polls. The rigs of conformance/features, promises/attacks and
// promises/principals embed Rig. Rig.Write changes a file of the folder in one step.
package processtest
