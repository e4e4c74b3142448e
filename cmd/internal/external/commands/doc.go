// Package commands is the command line of penstock-external. It has a command for each program, and
// it contains the tokenizers. It is a package so that docs/reference can list the flags.
//
// Only cmd/penstock-external and tests import it, because the vocabularies of the tokenizers are
// large. They took 10 MB of the penstock binary and, even unused, 2 MiB of memory in each penstock
// serve.
package commands
