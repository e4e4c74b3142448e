// Command clusterset-conformance is a conformance suite for cluster sets of InferencePools. It
// tests controllers that make InferencePoolImports, and gateways that route to them, against the
// multi-cluster inference proposal of the Gateway API inference extension
// (docs/proposals/1374-multi-cluster-inference). It runs on any implementation, and does not depend
// on Penstock:
//
//	clusterset-conformance -kubeconfig FILE -clusters east=CONTEXT,west=CONTEXT
//	  -shape seed|upstream [-profiles controller,gateway]
//	  [-gateway-class NAME -addresses IP,IP] [-run REGEXP]
//	  [-report FILE -organization ... -project ... -url ... -version ... -contact ...]
//
// It prints a line for each test and a summary. It exits with 1 if a test failed, and with 2 if its
// flags are invalid. With -run it writes no report.
//
// A Suite has a client and a name for each member of the cluster set. Profile controller needs only
// objects: the suite exports pools in one member and reads the imports in the others. Profile
// gateway needs one member: the suite writes the imports itself, and plays the exporting clusters,
// with pickers, model servers and gateways at Config.Addresses.
//
// The merged proposal differs from its draft: the merged InferencePoolImport has status.controllers
// alone (shape upstream), the draft has status.clusters with the wiring (shape seed). Tests that
// need a field which a shape lacks are skipped, and the report lists them. Most of profile gateway
// needs shape seed, because only that shape states how to reach an exporter.
//
// Each Test has a name, the sentence that it proves, and a function; tests.go lists all. Tests are
// independent: each deletes the namespace that it uses. No test asserts how long anything takes;
// Config.Timeout ends waits. To prove that a change has no effect, a test waits for the effect of a
// later change of the same kind.
//
// The tests of this package run the suite on simulated implementations. Correct ones pass every
// test. Broken ones fail exactly the tests that concern their defect.
//
// `make conformance SUITE=clusterset` runs it in a lab, with Penstock in three clusters. Tests: cd
// conformance && go test ./suites/clusterset
package main
