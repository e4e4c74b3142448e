// Package app constructs the parts of a process and runs them. It has no logic of its own: what
// happens to a change is in package pipeline and package delivery, what processes exchange in
// package peers.
//
// Each role is a constructor. NewFolder serves a folder of files (up, serve, demo), NewKubernetes
// the objects of a cluster (serve), NewStandAlone picks for gateways that Penstock does not
// configure (picker), NewOffline translates files without running anything (translate, diff,
// explain).
//
//	config.go       what the roles need
//	core.go         the parts of every role          offline.go      the role that runs nothing
//	app.go          the parts of every role that serves, and Run
//	standalone.go   a picker alone      document.go     its EndpointPickerConfig
//	folder.go       a folder of files                kubernetes.go   a cluster        fleets.go   that runs proxies
//	security.go     who may connect, and how peers are dialled
//	pages.go        metrics, health, status, explain     explain.go   one request through everything
//	serving.go      when a Gateway is served, for supervisors
//	listeners.go, memory.go, metrics.go
//
// Invariants: nothing starts before Run; nothing is set after construction; no proxy is answered
// before all sources are read and translated once.
//
// # Who sees what
//
// An address that others reach has metrics and health alone. Status and explanations of every
// namespace's objects are at loopback (--admin), behind the API server's permission to
// port-forward. So no further password is needed.
//
// # What profiles taught
//
// Memory of a burst stays until it is returned on purpose: Go collects when the heap has doubled,
// which at rest it never does. memory.go returns it a second after a start, a large change or a
// storm.
//
// Resident memory is live memory plus the gaps in it. Go moves nothing: an object allocated among
// garbage pins the pages of that garbage. With 5,000 routes 90 MiB were live, 60 to 85 more were
// gaps, in the small sizes that garbage has (16 to 112 bytes), and 48 were pages of the program. So
// less garbage during construction is less memory for good: resources are checked before they are
// encoded and not after, endpoints are encoded without messages, input is read once, and until the
// first idle moment the heap may only grow by half.
//
// RSS counts pages of the program, too: 54 to 62 MiB of it, by how much of the file the page cache
// has. Compare RssAnon, not VmRSS, of two binaries. Leaving out client-go's clientset, which only
// the election needs, saves 17 MB of the file and 2 MiB of memory: code that never runs is hardly
// ever resident.
//
// A metrics page with a series for each endpoint is megabytes of garbage at each scrape of it. So a
// series begins with the first request.
//
// Tests: go test ./cmd/penstock/internal/app; the whole is driven by the tests in cmd/penstock.
package app
