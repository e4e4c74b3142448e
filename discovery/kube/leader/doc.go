// Package leader elects, by a Lease, the one penstock process that writes to the API server.
//
// The leader writes statuses (discovery/status/kubestatus) and runs the fleets of Gateways
// (xds/fleet); every process serves xDS. cmd/penstock/internal/app constructs the Elector and
// passes the function to run while leading.
//
// Invariants: the context of the leading function ends before another process may lead. Any
// response of the API server, even an error, sets LastContact: a process without recent contact can
// detect that it is cut off.
//
// Tests: go test ./discovery/kube/leader (time in a bubble of testing/synctest, and the API server
// of kubetest); against a real API server: cd conformance && go test -tags lab ./promises.
package leader
