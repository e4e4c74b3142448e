// Package supervisor runs one Envoy for each Gateway on this machine, for subcommands of
// cmd/penstock. It does not import the xDS server: a bootstrap is bytes, and ControlPlane reports
// which URLs a Gateway's Envoy serves.
//
// Invariants: when Run returns, no process is left. On Linux the kernel also kills Envoy when this
// process is killed. The admin interface is a Unix socket inside EnvoyConfig.Dir, protected by the
// folder's permissions. A recreated Gateway gets a new Envoy after the old Envoy has ended.
//
// When this process executes another program, that program adopts the Envoys that Keep returns
// (keep.go). All these Envoys are children of one Thread.
//
// Tests (on the real Envoy): go test ./xds/supervisor
package supervisor
