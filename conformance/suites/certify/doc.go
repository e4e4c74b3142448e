// Command certify runs the official conformance suites, unmodified, and writes their reports.
// Packages suites/gateway and suites/inferencepool pin the suites. Each suite runs in its own lab,
// in which Penstock is installed from its manifests, or on a given cluster.
//
//	certify [-kubeconfig FILE] [-suite REGEXP] [-core] [-run TEST]
//
// The suites read the supported features from the GatewayClass's status, so every claimed feature
// is tested. With -core only the core of each profile runs, which takes minutes instead of half an
// hour, and no report is written.
//
// The inference extension's suite also runs with Penstock's pickers: as external pickers
// (inference-epp), and as built-in pickers (inference-own-picker). In the last run the API server
// removes the references to pickers, tests of the suite's pickers are omitted, and no report is
// written.
//
// Invariants: no other test is skipped. A failed test is an error, and so is a report with a
// skipped test or an unsupported feature. Only features of a mesh may be unsupported.
//
// `make conformance` and `.ci/run` call it. Tests: cd conformance && go test ./suites/certify
package main
