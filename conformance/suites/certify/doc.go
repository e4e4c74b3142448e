// Command certify runs the official conformance suites, unmodified (conformance/suites/gateway pins and builds them), and writes
// their report files. Each runs in a lab of its own in which Penstock is installed from its manifests, or in a given cluster.
//
//	certify [-kubeconfig FILE] [-suite REGEXP] [-core] [-run TEST]
//
// What is supported is read by the suites from the GatewayClass's status, so that what is claimed is what is tested. With
// -core only the core of each profile runs, which takes minutes instead of half an hour, and no report is written.
//
// The inference extension's suite runs twice: with its own reference pickers, and (inference-own-picker) with Penstock's, which the API server
// is told to put in their place; without a report then, and without the tests that are about a picker of the suite's.
//
// Invariants: nothing else is skipped. A report that lists a skipped test, or a feature of a gateway as not supported, is an
// error, as a failed test is; mesh features and UDP are not a gateway's for TCP.
//
// `make conformance` and `.ci/run` call it. Tests: cd conformance && go test ./suites/certify
package main
