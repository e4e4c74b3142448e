// Package supervisor runs one Envoy for each Gateway on this machine, for subcommands of
// cmd/penstock. It does not import the xDS server: a bootstrap is bytes, and ControlPlane reports
// which URLs a Gateway's Envoy serves.
//
// Invariants: when Run returns, no process is left. On Linux the kernel also kills Envoy when this
// process is killed. The admin interface is a Unix socket inside EnvoyConfig.Dir, protected by the
// folder's permissions. A Gateway that is deleted and created again gets a new Envoy, after the old
// one has ended.
//
// A program that replaces this one in the same process adopts the Envoys that Keep returns
// (keep.go); all of them are children of one Thread.
//
// Tests (on the real Envoy): go test ./xds/supervisor
package supervisor
