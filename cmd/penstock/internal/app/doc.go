// Package app constructs the parts of a process and runs them. It has no logic of its own. Each
// role is a constructor:
//
//	NewFolder      serves files (up, serve, demo)
//	NewKubernetes  serves the objects of a cluster (serve)
//	NewStandAlone  is a picker for gateways that Penstock does not configure (picker)
//	NewOffline     translates files (translate, diff, explain)
//
// Invariants: nothing starts before Run; construction is complete when the constructor returns; no
// proxy receives a response before all sources are read and translated once. An address that other
// machines reach serves only metrics and health.
//
// # Memory
//
// Resident memory is live memory plus gaps, because Go never moves objects: a live object among
// garbage keeps its page. With 5,000 routes, 90 MiB were live, 60 to 85 MiB were gaps among garbage
// of 16 to 112 bytes, and 48 MiB were the program. Therefore resources are checked before they are
// encoded, endpoints are encoded without messages, and input is read once.
//
// Compare RssAnon of two binaries: VmRSS includes 54 to 62 MiB of the program, depending on the
// page cache.
package app
