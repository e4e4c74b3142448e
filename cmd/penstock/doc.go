// Command penstock is the control plane, the endpoint picker and the tools around them in one binary.
//
// The package has one file per subcommand; main.go lists them. It wires the parts and is the only package that knows
// them all: what could be tested without a command line lives in a package below. Nothing imports it.
//
// A subcommand's function takes no arguments and returns its *cobra.Command; it reads no global and leaves no trace
// until it runs, so that tests can build and execute it alone. Errors are returned, and main prints them once.
//
// Tests: go test ./cmd/penstock. layout_test.go keeps the import rules and the shape of the repository.
package main
