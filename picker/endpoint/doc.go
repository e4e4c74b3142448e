// Package endpoint knows the model servers of all pools: who they are, how loaded they say they are, and how many requests
// of ours they have.
//
// Registry owns what is shared by address: one Load (our requests under way) per address, one scraper per address and
// metrics page, however many pools name it. A Snapshot is one pool's list at one time; it never changes, so picks read it
// without a lock, while scrapers and leases write the atomics that it points to.
//
// Ledger owns leases: a pick opens one, and it is settled by feedback, by the stream's end, or by its timeout.
//
// Invariants:
//   - Stale is not zero. A server whose page cannot be read keeps its last sample, marked; see State.
//   - Every opened lease lowers the count that it raised exactly once.
//   - Goroutines run only inside Run.
//
// Package picker wires it; package schedule reads Snapshots. Tests: go test ./picker/endpoint.
package endpoint
