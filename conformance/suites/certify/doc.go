// Command certify runs the official conformance suites, unmodified, and writes their reports.
// Packages suites/gateway and suites/inferencepool pin the suites. Each runs in a lab of its own in
// which Penstock is installed from its manifests, or on a given cluster.
//
//	certify [-kubeconfig FILE] [-suite REGEXP] [-core] [-run TEST]
//
// The suites read the supported features from the GatewayClass's status, so every claimed feature
// is tested. With -core only the core of each profile runs, which takes minutes instead of half an
// hour, and no report is written.
//
// The inference extension's suite runs twice: with its own reference pickers, and
// (inference-own-picker) with Penstock's, which the API server substitutes. The second run writes
// no report, and omits the tests of the suite's own pickers.
//
// Invariants: no other test is skipped. A failed test is an error, and so is a report with a
// skipped test or an unsupported feature of a gateway. Mesh features and UDP do not count: Penstock
// is a gateway for TCP.
//
// `make conformance` and `.ci/run` call it. Tests: cd conformance && go test ./suites/certify
package main
