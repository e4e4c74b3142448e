// Package commands has the command line of penstock-external: a command for each program, and the
// tokenizers. It is a package so that docs/reference can list the flags.
//
// Only cmd/penstock-external and tests import it, because of the tokenizers' vocabularies. They
// took 10 MB of the penstock binary and, even unused, 2 MiB of memory in each penstock serve.
package commands
