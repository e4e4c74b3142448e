// Command penstock-external has the small programs that stand in for the external services of a pool with picker.processor: a processor
// (POST /process), a router (POST /route) and a token store. manifests/charts/external runs them.
//
// It is not part of penstock because of its vocabularies: linked into penstock they took 10 MB of the program and, although unused, 2 MiB
// of the memory of each penstock serve, because the linker mixes their strings with all others.
//
//	main.go   the commands      programs.go   a command for each program      vocabulary.go   the tokenizers
//
// Invariants: all state is in memory; a program ends when it has answered the requests in flight.
//
// Tests: go test ./cmd/penstock-external ./cmd/internal/external/...
package main
