// Package delivery owns the order in which a change reaches the board, the picker, peers, the cache
// and the other parts. The order is the table stages in delivery.go. Each part is a file here, with
// its test. Package app passes New the parts of a role (a folder, Kubernetes).
//
//	report   reports.go           the board
//	claim    ports.go             each port of this machine has one Gateway
//	shrink   pools.go, shrink.go  the picker drops endpoints, and asks peers to follow
//	probe    probes.go            external pickers are probed
//	commit   holds.go, linger.go  the cache; removals wait for peers, endpoints of
//	                              removed imports linger
//	grow     pools.go, envoys.go  the picker names new endpoints once Envoys have
//	                              them; for a while with fallbacks
//	observe  package app          status, fleets, supervisors
//	reach    progress.go          waits for the revision end
//
// After a pause of a process that has peers (stops.go), its picks wait until it has caught up.
//
// Invariants: a picker drops an endpoint before Envoy drops it, and names a new endpoint after
// Envoy has it, so a pick never names an endpoint that its cluster lacks. No step waits: holds.go
// holds back, by pool, the removals that peers have not followed; everything else is committed. One
// goroutine delivers changes, in the order of their revisions.
//
// Tests: go test ./cmd/penstock/internal/delivery
package delivery
