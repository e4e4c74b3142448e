// Package endpoint knows the model servers of all pools: who they are, how loaded they say they are, and how many requests
// of ours they have.
//
// Registry owns what is shared by address: one Load (our requests under way) per address, one scraper per address and
// metrics page, however many pools name it. A Snapshot is one pool's list at one time; it never changes, so picks read it
// without a lock, while scrapers and leases write the atomics that it points to.
//
// A page is read often while its pool is picked from, slowly for a minute after, and then not at all until the next pick:
// asking thousands of servers that nobody uses would take more than all the rest of an idle control plane. Who looks at a
// pool's endpoints, rather than picks, has them read first (Snapshot.Refresh).
//
// Ledger owns leases: a pick opens one, and it is settled by feedback, by the stream's end, or by its timeout.
//
// Invariants:
//   - Stale is not zero. A server whose page cannot be read keeps its last sample, marked; see State.
//     Neither is the first pick from an idle pool: it goes by our own requests, while the pages are being read.
//   - Every opened lease lowers the count that it raised exactly once.
//   - Goroutines run only inside Run.
//
// Package picker wires it; package schedule reads Snapshots. Tests: go test ./picker/endpoint.
package endpoint
