// Package commands has the command line of penstock-external: a command for each of its programs,
// and the tokenizers. It is a package so that docs/reference can list its flags.
//
//	programs.go   the commands      vocabulary.go   the tokenizers
//
// Only cmd/penstock-external and tests import it, because of the vocabularies. In penstock they
// took 10 MB of the program. Unused, they still took 2 MiB of the memory of each penstock serve,
// because the linker mixes their strings with others.
//
// Invariants: all state is in memory; a program ends when it has answered the requests in flight.
//
// Tests: go test ./cmd/internal/external/commands
package commands
