// Command penstock is the control plane, the endpoint picker and the tools around them in one
// binary.
//
// The package has one file per subcommand; main.go lists them. It is the only package that imports
// all others, and nothing imports it. Code that can be tested without a command line lives in the
// packages below.
//
// A subcommand's function takes no arguments and returns its *cobra.Command. It reads no global and
// has no effect before the command runs, so that tests can build and execute it alone. Errors are
// returned, and main prints them once.
//
// Tests: go test ./cmd/penstock. layout_test.go checks the import rules and the shape of the
// repository; reference_test.go generates docs/reference.
package main
