// Package proxy runs one Envoy process for one Gateway: it finds a binary that is recent enough, starts it, forwards
// what it complains about to slog, restarts it with a growing delay when it dies, drains it when asked to stop, and
// leaves no process behind.
//
// Its callers are the subcommands of cmd/penstock. It knows nothing of xDS: the bootstrap comes in as bytes.
//
// Invariants:
//   - When Run returns, no Envoy of this Proxy is left: it was asked, then told, then killed with its process group. On
//     Linux the kernel also kills it when this process dies without a word.
//   - The admin interface is a Unix socket inside Config.Dir, whose permissions are its only protection.
//   - Several Proxies run side by side on one machine, given the arguments that xds/bootstrap makes.
//
// Tests (on the real Envoy): go test ./cmd/penstock/internal/proxy
package proxy
