// Package demo shows Penstock at work on one machine: two "clusters", each a penstock process with an Envoy of its own
// and simulated model servers, and a story in six steps that checks itself.
//
// It is called by `penstock demo` alone. It runs the penstock binary as a user would, and asks the running processes for
// their reasons by the ways that users have: `penstock explain`, and the picks that the picker recorded. The YAML is below
// config/, one file for each step; a step begins by dropping its file into the folder that penstock follows.
//
// One file an idea: demo.go (the order of things), stage.go (what runs), process.go (one cluster), config.go (the YAML),
// client.go (requests), steps.go and spill.go (the story), page.go (how it looks).
//
// Invariants: every address is on loopback and every port a free one, so that demos can run side by side; whatever way Run
// ends, no process and no file of it is left; no step says that something happened without having seen it.
//
// Tests: go test ./cmd/penstock/internal/demo for what decides and prints; the demo itself, on the real Envoy, is run by
// go test -run Demo ./cmd/penstock
package demo
