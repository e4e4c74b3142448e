// Command zeroloss looks for requests that a change of configuration loses. It runs Penstock as a user does (the built
// binary, a folder of YAML, the real Envoy), sends plain, streamed and large requests to hosts that always ought to be
// served, and meanwhile applies a random but seeded sequence of changes to the folder.
//
//	go run ./promises/zeroloss                        the figure: two control planes, 1,000 changes, 3 restarts of each
//	go run ./promises/zeroloss -up -steps 200         the same for `penstock up`
//	go run ./promises/zeroloss -envoys 2              the same with two Envoys, each at either control plane
//	go run ./promises/zeroloss -absences 5            another figure: how soon an Envoy serves that started without a control plane
//	go run ./promises/zeroloss -seed 7 -play 1-40     a sequence again: what a failed run prints, as a script too
//	go run ./promises/zeroloss -seed 7 -shrink 30m    the same, then shorter ones, as long as they fail
//
// The parts: world.go is what the user's folder means at a moment, render.go its YAML, change.go the kinds of change, folder.go
// how files are written; model.go is the simulated model servers, client.go the requests and what is expected of them;
// process.go starts penstock and Envoy, restart.go ends them; run.go puts all together, absence.go less of it; dump.go compares
// what is left in Envoy with what ought to be; report.go prints; shrink.go makes a failing sequence shorter.
//
// Invariants: what is changed depends on the seed alone, never on time. A model server ends only after it has left the files
// and its requests have ended; a host is asked no more before it leaves the files. So every failure is Penstock's, or Envoy's.
//
// What it still can find: whatever a machine does that stands still for longer than a pick may take (2 s), or Envoy's workers
// for 20 ms after its main thread (new endpoints); a model server that closes an idle connection just as such a machine uses it;
// the first picks of pods that only a remote picker knows, where the control plane that is to tell Envoy of them is 0.75 s late
// (503, if the pool fails closed). What it does not try: the end of a foreign picker, and Kubernetes in the
// folder's place.
//
// A busy machine is best played by a CPU quota for the control planes alone (10 ms in 150, by their cgroup): they are then
// stopped in the middle of whatever they do. That is how it was found, in four runs of four, that folders were read by halves
// while they were written (-restarts 0 -pace 60ms -rate 60 -streams 10 -only split,move,import-add,import-remove,edit-route,
// listener-add,listener-remove; seeds 44, 7 and 9).
//
// Tests: go test ./promises/zeroloss runs a short sequence of each form.
package main
