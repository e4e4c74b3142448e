// Command clusterset-conformance is a conformance suite for cluster sets of InferencePools: for
// controllers that make InferencePoolImports, and gateways that route to them. It tests the
// multi-cluster inference proposal of the Gateway API inference extension
// (docs/proposals/1374-multi-cluster-inference), and does not depend on Penstock.
//
// It exits with 1 if a test failed, and with 2 if its flags are invalid. Profile controller needs
// only objects: the suite exports pools in one member and reads the imports in the others. Profile
// gateway needs one member: the suite writes the imports, and stands in for the exporting clusters
// at Config.Addresses.
//
// The merged InferencePoolImport has status.controllers alone (shape upstream). The draft has
// status.clusters with the wiring, which states how to reach an exporter (shape seed). A test is
// skipped, and listed in the report, if it needs a field that the shape lacks.
//
// Each test deletes its namespace. No test asserts a time. To prove that a change has no effect, a
// test waits for the effect of a later change of the same kind. Tests: cd conformance && go test
// ./suites/clusterset
package main
