// Package supervisor runs the processes of `penstock up` on this machine: one Envoy for each
// Gateway.
//
// Subcommands of cmd/penstock call it. Find locates an Envoy binary. Supervisor keeps one Envoy for
// each Gateway and announces a Gateway's URLs once they accept connections. Envoy starts one
// process, forwards its warnings to slog, restarts it with a growing delay when it exits, and
// drains it on shutdown. The package does not import the xDS server: a bootstrap is bytes, and
// ControlPlane reports which URLs a Gateway's Envoy serves.
//
// Invariants:
//   - When Run returns, no process is left: Envoy drains, then its process group gets SIGTERM, then
//     SIGKILL. On Linux the kernel also kills Envoy when this process is killed.
//   - The admin interface is a Unix socket inside EnvoyConfig.Dir, protected by the folder's
//     permissions.
//   - Several Envoys run side by side on one machine if they have the arguments of
//     bootstrap.Config.Args.
//   - A Gateway that is deleted and created again gets a new Envoy, after the old one has ended.
//
// Tests (on the real Envoy): go test ./xds/supervisor
package supervisor
