// Package demo demonstrates Penstock on one machine: "clusters", each a penstock process with its
// own Envoy and simulated model servers, and steps that check themselves.
//
// Only `penstock demo` calls it. It runs the penstock binary as a user would. It reads the reasons
// of decisions as a user can, from `penstock explain` and from recorded picks.
//
//	steps.yaml     the texts of all steps
//	config/, set/  the YAML of the demos; most steps begin by saving a file that penstock watches
//	demo.go        how a demo runs; process.go: penstock, and the YAML; client.go: requests, output
//	pools.go       the demo of pools: two clusters, ten steps
//	clusterset.go  the demo of cluster sets: three clusters, eight steps
//
// Invariants: addresses are on loopback and ports are free ones, so demos can run side by side;
// when Run returns, its processes and files are gone; no step reports a result that it has not
// observed.
//
// Tests: go test ./cmd/penstock/internal/demo for checks and output; go test -run Demo
// ./cmd/penstock runs both demos on the real Envoy.
package demo
