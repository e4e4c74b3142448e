// Command certify runs the official conformance suites, unmodified, and writes their reports.
// Packages suites/gateway and suites/inferencepool pin the suites. Each suite runs on a given
// cluster, or in its own lab with Penstock from its manifests:
//
//	certify [-kubeconfig FILE] [-suite REGEXP] [-core] [-run TEST]
//
// With -core only the core of each profile runs, and no report is written. The inference
// extension's suite runs with Penstock's pickers as external pickers (inference-epp), and with
// built-in pickers (inference-own-picker). The latter skips the tests of the suite's own picker, so
// it writes no report.
//
// A report with a skipped test or an unsupported feature is an error, except for features of a
// mesh. Tests: cd conformance && go test ./suites/certify
package main
