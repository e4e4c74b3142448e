// Package retry repeats a check until it succeeds, for the commands of conformance. Tests use
// xds/xdstest/poll, which needs a testing.TB. Test alone with `go test ./lab/retry`.
package retry
