// Package retry repeats a check until it succeeds. The commands of conformance use it. Tests use
// xds/xdstest/poll of the main module instead, which needs a testing.TB. Test alone with `go test
// ./lab/retry`.
package retry
