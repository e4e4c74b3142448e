// Command clusterset-conformance is a conformance suite for cluster sets of InferencePools. It
// tests the demands of the multi-cluster inference proposal of the Gateway API inference extension
// (docs/proposals/1374-multi-cluster-inference) on controllers that make InferencePoolImports, and
// on gateways that route to them. It runs on any implementation, and does not depend on Penstock:
//
//	clusterset-conformance -kubeconfig FILE -clusters east=CONTEXT,west=CONTEXT
//	  -shape seed|upstream [-profiles controller,gateway]
//	  [-gateway-class NAME -addresses IP,IP] [-run REGEXP]
//	  [-report FILE -organization ... -project ... -url ... -version ... -contact ...]
//
// It prints a line for each test and a summary. It exits with 1 if a test failed, and with 2 if its
// flags are invalid. With -run it writes no report.
//
// A Suite has a client for each member cluster, and the names that the members have in the set.
// Profile controller needs only objects: the suite exports pools in one member and reads the
// imports in the others. Profile gateway needs one member: the suite writes the imports itself, and
// plays the exporting clusters, with pickers, model servers and gateways at Config.Addresses.
//
// The merged proposal differs from its draft: the merged InferencePoolImport has status.controllers
// alone (shape upstream), the draft has status.clusters with the wiring (shape seed). Tests that
// need a field which a shape lacks are skipped, and the report lists them. Most of profile gateway
// needs shape seed, because only that shape states how to reach an exporter.
//
// Each Test has a name, the sentence that it proves, and a function; tests.go lists all. Tests are
// independent: each has namespaces of its own, which it deletes. No test asserts how long anything
// takes; Config.Timeout ends waits. What must never happen is checked once a later change of an
// object of the same kind has had its effect.
//
// Its own tests run it against correct stand-ins, which pass every test, and broken ones, each of
// which fails exactly the tests that its defect is about.
//
// `make conformance SUITE=clusterset` runs it in a lab, with Penstock in three clusters. Tests: cd
// conformance && go test ./suites/clusterset
package main
