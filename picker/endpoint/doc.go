// Package endpoint holds the state of the model servers of all pools: their addresses, the load
// that they report, and the requests of this process in flight at them.
//
// Registry owns what pools share by address: one Load (requests in flight) per address, one scraper
// per address and metrics page. A Snapshot is one pool's list at one time. It never changes, so
// picks read it without a lock, while scrapers and leases write the atomics that it points to.
//
// Scrapes follow picks, because a page takes the model server's own time: a page is read after
// every second pick of its endpoint, at most 20 times a second, and once a second while its pool
// has picks and for a minute after; then not at all until the next pick. All pages together have a
// budget (Config.PerSecond), which also spreads the first scrapes of a large pool. A caller that
// shows a pool's endpoints, rather than picks, has them scraped first (Snapshot.Refresh). What a
// caller has read itself can be stored by BeginScrape; what another process of the control plane
// has read is taken over by Receive, so that one process reads each page (shared.go).
//
// Leases owns leases: a pick opens one, and it is released by the access log, by the end of the
// stream, or by its timeout. A lease has the request's Work: its uncached prompt counts at the
// endpoint until its first token is reported. Load accounts for them: prefill.go has what the
// server is to read and how fast it reads, reported.go how fast its page shows that it reads, which
// comes first, health.go whether it serves, silence.go whether it sends tokens, latency.go how long
// its responses take by the Work's Features.
//
// Invariants:
//   - Stale is not zero. A server whose page can't be read keeps its last sample, marked as not
//     fresh; see State. The first pick from an idle pool goes by the requests in flight, while the
//     pages are being scraped.
//   - Every lease lowers the count that it raised exactly once. What peers have in flight is theirs
//     to count; counts.go adds it.
//   - A server can neither take memory nor occupy the scrapers: pages are read line by line through
//     one of 256 buffers and have a size limit, above which they are an error, and a server that
//     answers late is scraped less often.
//   - Accounting reads no clock: callers pass the time. BeginScrape stands in for the scrapers. So
//     package simulation runs this code in virtual time.
//   - Goroutines run only inside Run.
//
// Package picker wires it; package schedule reads Snapshots. Tests: go test ./picker/endpoint.
package endpoint
