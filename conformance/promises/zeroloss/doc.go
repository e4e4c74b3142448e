// Command zeroloss looks for requests that are lost during a change of configuration. It runs the
// built binary on a folder of YAML, with the real Envoy. It sends plain, streamed and large
// requests to hosts that must always be served, and applies a random but seeded sequence of changes
// to the folder.
//
//	go run ./promises/zeroloss  the figure: two control planes, 1,000 changes, 3 restarts of each
//	go run ./promises/zeroloss -up -steps 200         the same for `penstock up`
//	go run ./promises/zeroloss -envoys 2              the same with two Envoys, each at either control plane
//	go run ./promises/zeroloss -soak 1h  changes and faults for an hour, and whether memory grows (make soak)
//	go run ./promises/zeroloss -seed 7 -play 1-40     a sequence again: a failed run prints this, and a script
//	go run ./promises/zeroloss -seed 7 -shrink 30m    the same, then shorter sequences, as long as they fail
//
// The files: world.go is the meaning of the user's folder, render.go its YAML, change.go and
// churn.go the kinds of change, folder.go how files are written; model.go has the simulated model
// servers, client.go the requests and their expected responses; process.go starts penstock and
// Envoy (package process), restart.go restarts them; run.go runs everything, stall.go notices a
// machine that stalls, soak.go has the faults of -soak, names.go its DNS server (package soak has
// what the process needs meanwhile), dump.go compares Envoy's
// final configuration with the expected one; report.go prints; shrink.go shortens a failing
// sequence.
//
// Invariants: the changes depend on the seed alone, never on time. A model server ends only after
// it has left the files and its requests have ended; a host receives no more requests before it
// leaves the files. So every failure is Penstock's or Envoy's.
//
// Known causes of failures:
//   - The machine stalls for longer than a pick may take (2 s), or Envoy's workers do for 20 ms
//     after its main thread (new endpoints).
//   - On such a machine, a model server closes an idle connection at the moment of its use.
//   - Picks of pods that only a remote picker knows come 0.75 s before the control plane has
//     published them to Envoy (503, if the pool fails closed).
//
// Package promises has the faults of Kubernetes. To simulate a busy machine, set a CPU quota for
// the control planes alone (10 ms in 150, by their cgroup): it stops them at any point, and has
// found reads of half-written folders (-restarts 0 -pace 60ms -rate 60 -streams 10 -only
// split,move,import-add,import-remove,edit-route,listener-add,listener-remove; seeds 44, 7 and 9).
//
// Tests: go test ./promises/zeroloss runs a short sequence of each form.
package main
