// Package commands implements the command line of penstock-external, with a subcommand for each of
// its programs. It is a package of its own so that docs/reference can list the flags.
//
// Only cmd/penstock-external and tests import this package, because the vocabularies of its
// tokenizers are large. In the penstock binary they took 10 MB and, even unused, 2 MiB of memory in
// each penstock serve.
package commands
