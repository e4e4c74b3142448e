// Package delivery owns what has to happen in which order when a change is committed: to the board,
// the picker, peers, the cache and whatever follows it. The order is the table stages in
// delivery.go. Each part that takes part is a file here with its test; a role of the process (a
// folder, Kubernetes) is the list of parts that package app gives to New.
//
//	report    reports.go            the board
//	claim     ports.go              each port of this machine has one Gateway
//	shrink    pools.go, shrink.go   the picker drops endpoints, and peers are asked to
//	probe     probes.go             external pickers are asked how they answer
//	commit    holds.go, linger.go   the cache; removals wait for peers, endpoints of removed imports stay for a while
//	grow      pools.go, envoys.go   the picker names new endpoints once Envoys have them; for a while not alone
//	observe                         status, fleets, supervisors (package app)
//	reach     progress.go           waits for the revision end
//
// A process that has peers and is stopped for a while (stops.go) has its picks wait afterwards
// until it knows what has changed.
//
// Invariants: a picker drops an endpoint before Envoy does and names a new one after Envoy has it,
// so a pick never names what its cluster lacks. No step waits: a removal that peers have not
// followed is held by pool (holds.go), and everything else is committed. Changes are delivered by
// one goroutine, in the order of their revisions.
//
// Tests: go test ./cmd/penstock/internal/delivery
package delivery
