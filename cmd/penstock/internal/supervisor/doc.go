// Package supervisor runs the Envoys of `penstock up`: one process for each Gateway. It finds a recent binary, starts it,
// forwards its warnings to slog, restarts it with a growing delay when it dies, and drains it on shutdown.
//
// Its callers are the subcommands of cmd/penstock. Supervisor keeps one Envoy for each Gateway and announces it when it
// serves; Envoy supervises a single process. Neither knows xDS: a bootstrap is bytes.
//
// Invariants:
//   - When Run returns, no process is left: Envoy drains, then gets SIGTERM, then SIGKILL with its process group. On Linux
//     the kernel also kills it when this process dies.
//   - The admin interface is a Unix socket inside EnvoyConfig.Dir. The folder's permissions are its only protection.
//   - Several Envoys run side by side on one machine, given the arguments of bootstrap.Config.Args.
//   - A Gateway that is deleted and created again gets a new Envoy.
//
// Tests (on the real Envoy): go test ./cmd/penstock/internal/supervisor
package supervisor
