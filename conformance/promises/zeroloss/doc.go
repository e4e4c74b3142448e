// Command zeroloss finds requests that are lost during changes of configuration. It runs the built
// binary on a folder of YAML, with the real Envoy. It sends plain, streamed and large requests to
// hosts that must always be served, and meanwhile changes the folder.
//
//	go run ./promises/zeroloss                        the figure: 1,000 changes, 3 restarts of both control planes
//	go run ./promises/zeroloss -up -steps 200         the same for `penstock up`
//	go run ./promises/zeroloss -envoys 2              the same with two Envoys, each connected to both control planes
//	go run ./promises/zeroloss -soak 1h               changes and faults, and growth of memory (make soak)
//	go run ./promises/zeroloss -seed 7 -play 1-40     repeats a sequence, as a failed run prints it
//	go run ./promises/zeroloss -seed 7 -shrink 30m    runs a sequence, and then shortens it as long as it fails
//
// Invariants: the changes depend on the seed alone, never on time. This program itself causes no
// failure: a model server ends only after it has left the files and its requests have ended, and
// requests to a host stop before the host leaves the files.
//
// Two events may still cause failures: the machine stalls for more than 2 s, the limit of a pick;
// or a remote picker picks a pod more than 0.75 s before the control plane publishes it to Envoy
// (503 if the pool fails closed).
//
// Tests: go test ./promises/zeroloss runs a short sequence of each form.
package main
