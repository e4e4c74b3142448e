// Package leader elects the one of several penstock processes that writes to the API server, by a
// Lease.
//
// The process that leads writes statuses (discovery/status/kubestatus) and runs the fleets of
// Gateways (xds/fleet); every process serves xDS. cmd/penstock/internal/app constructs the Elector
// and passes what to run while leading.
//
// Invariants: the context of the leading function ends before another process may lead. Any answer
// of the API server, an error response included, counts as contact (LastContact), so that a process
// can detect that it is cut off.
//
// Tests: go test ./discovery/kube/leader (time in a bubble of testing/synctest, and the API server
// of kubetest); against a real API server: cd conformance && go test -tags lab ./promises.
package leader
