// Package delivery owns the order in which a change reaches the board, the picker, peers, the cache
// and the other parts. Package app passes the parts of a role to New.
//
//	report   reports.go           the board
//	claim    ports.go             each port of this machine has one Gateway
//	shrink   pools.go, shrink.go  the picker drops endpoints, and asks peers to follow
//	probe    probes.go            external pickers are probed
//	commit   holds.go, linger.go  the cache; some removals wait for peers or linger
//	grow     pools.go, envoys.go  the picker names new endpoints once Envoys have them
//	observe  package app          status, fleets, supervisors
//	reach    progress.go          ends waits for the revision
//
// Invariants: a picker drops an endpoint before Envoy drops it, and names a new endpoint after
// Envoy has it, so a pick never names an endpoint that its cluster lacks. No step waits: holds.go
// defers the removals of a pool that peers have not followed. One goroutine delivers changes, in
// the order of their revisions.
package delivery
