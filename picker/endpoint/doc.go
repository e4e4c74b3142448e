// Package endpoint holds the state of the model servers of all pools: addresses, reported load, and
// requests in flight.
//
// Registry owns the parts that pools share: one Load (requests in flight) per address, and one
// scraper per address and metrics page. A Snapshot is an immutable list of one pool's endpoints.
// Picks read it without a lock, while scrapers and leases write the atomics that the Snapshot
// points to.
//
// Scrapes follow picks, because each scrape costs the model server time. A page is read after every
// second pick of its endpoint, at most 20 times a second, and at least once a second until a minute
// after its pool's last pick. Then reading stops until the next pick. All scrapes share a budget
// (Config.PerSecond), which also spreads the first scrapes of a large pool. Snapshot.Refresh
// scrapes endpoints for callers that show them. BeginScrape is for callers that read a page
// themselves. Receive stores a sample that a peer read, so that only one process reads each page
// (shared.go).
//
// A pick opens a lease. The access log, the end of the stream or a timeout releases the lease. The
// lease carries the request's Work: the uncached prompt counts at the endpoint until the first
// token is reported. Load does this accounting: prefill.go (prompts to read, inferred rate),
// reported.go (rate by metrics, which takes precedence), health.go (failures), silence.go (servers
// that send no tokens), latency.go (latency by the Work's Features).
//
// Invariants:
//   - Stale is not zero. A server whose page cannot be read keeps its last sample, marked as not
//     fresh; see State. The first pick from an idle pool uses the requests in flight while the
//     pages are scraped.
//   - Every lease lowers each count that it raised, exactly once. Peers count their own requests;
//     counts.go adds their counts.
//   - A server can neither use up memory nor block the scrapers. Pages are read line by line
//     through one of 256 buffers. A page above the size limit is an error, and slow servers are
//     scraped less often.
//   - Accounting reads no clock: callers pass the time. With BeginScrape instead of scrapers,
//     package simulation runs this code in virtual time.
//   - Goroutines run only inside Run.
//
// Package picker owns the Registry; package schedule reads Snapshots. Tests: go test
// ./picker/endpoint.
package endpoint
