// Package retry repeats a check until it succeeds: for the commands of conformance, which wait for
// processes, clusters and proxies. Tests use xds/xdstest/poll of the main module instead, which
// needs a testing.TB.
//
// Packages bench, lab/cluster and promises/zeroloss call it. Test alone with `go test ./lab/retry`.
package retry
