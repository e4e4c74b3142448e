// Package endpoint keeps the addresses, the reported load and the requests in flight of all pools'
// model servers. Package picker owns the Registry; package schedule reads Snapshots.
//
// The Registry has one Load (requests in flight) for each address, and one scraper for each metrics
// page at an address; pools share these. A Snapshot is an immutable list of one pool's endpoints.
// Picks read it without a lock. A pick opens a lease. The access log, the end of the stream or a
// timeout releases the lease. Picks trigger scrapes; scrapes stop a minute after the last pick.
//
//	shared.go    samples that peers read, so that only one process reads each page
//	counts.go    requests in flight of peers
//	prefill.go   prompts to read, and the inferred rate
//	reported.go  rate from metrics, used instead of the inferred rate
//	health.go    failures
//	silence.go   servers that send no tokens
//	latency.go   predicted latency
//
// Invariants:
//   - A server whose page cannot be read keeps its last sample, marked as not fresh.
//   - Every lease lowers each count that it raised, exactly once.
//   - A server can neither use up memory nor block the scrapers: pages and buffers are bounded.
//   - Functions that account for requests get the time from callers: package simulation has a
//     virtual clock.
package endpoint
