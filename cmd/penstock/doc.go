// Command penstock is the control plane, the endpoint picker and the tools around them in one
// binary. The package has one file per subcommand; main.go lists them.
//
// A subcommand's function takes no arguments and returns its *cobra.Command. It reads no global and
// has no effect before the command runs, so that tests can build and execute the command alone.
// Commands return errors, and main prints them once.
//
// layout_test.go checks the import rules and the shape of the repository; reference_test.go
// generates docs/reference.
package main
