// Package supervisor runs the processes of `penstock up` on this machine: one Envoy for each
// Gateway. Subcommands of cmd/penstock call it. The package does not import the xDS server: a
// bootstrap is bytes, and ControlPlane reports which URLs a Gateway's Envoy serves.
//
// Invariants:
//   - When Run returns, no process is left: Envoy drains, then its process group gets SIGTERM, then
//     SIGKILL. On Linux the kernel also kills Envoy when this process is killed.
//   - The admin interface is a Unix socket inside EnvoyConfig.Dir, protected by the folder's
//     permissions.
//   - A Gateway that is deleted and created again gets a new Envoy, after the old one has ended.
//
// Tests (on the real Envoy): go test ./xds/supervisor
package supervisor
