// Package app constructs the parts of a process and runs them. It has no logic of its own: package
// pipeline and package delivery handle changes, package peers exchanges facts between processes.
//
// Each role is a constructor: NewFolder serves files (up, serve, demo), NewKubernetes the objects
// of a cluster (serve), NewStandAlone picks for gateways that Penstock does not configure (picker),
// NewOffline translates files (translate, diff, explain).
//
// Invariants: nothing starts before Run; nothing is set after construction; no proxy receives a
// response before all sources are read and translated once. An address that other machines reach
// serves only metrics and health.
//
// # Memory
//
// Go collects when the heap has doubled, which never happens at rest. So memory.go returns the
// memory of a burst, such as a start or a large change, a second later.
//
// Resident memory is live memory plus gaps: Go never moves objects, so an object among garbage pins
// its pages. With 5,000 routes, 90 MiB were live, 60 to 85 MiB were gaps in the size classes of
// garbage (16 to 112 bytes), and 48 MiB were pages of the program. Therefore resources are checked
// before they are encoded, endpoints are encoded without messages, input is read once, and until
// the process first rests, the heap grows by half at most. A metric has no series for an endpoint
// before its first request.
//
// Compare RssAnon, not VmRSS, of two binaries: VmRSS includes 54 to 62 MiB of the program,
// depending on the page cache.
package app
