// Package delivery owns what has to happen in which order when a change is committed: to the board, the picker, peers, the
// cache and whatever follows it. The order is the table stages in delivery.go. Each part that takes part is a file here with
// its test; a role of the process (a folder, Kubernetes) is the list of parts that package app gives to New.
//
//	report    reports.go            the board
//	claim     ports.go              each port of this machine has one Gateway
//	shrink    pools.go, shrink.go   the pickers of this process and of its peers drop endpoints
//	probe     probes.go             external pickers are asked how they answer
//	commit    linger.go             the cache; clusters of imports keep their endpoints for a while
//	grow      pools.go, envoys.go   the picker names new endpoints once Envoys have them
//	observe                         status, fleets, supervisors (package app)
//	reach     progress.go           waits for the revision end
//
// Invariants: a picker drops an endpoint before Envoy does and names a new one after Envoy has it, so a pick never names what
// its cluster lacks. Changes are delivered by one goroutine, in the order of their revisions.
//
// Tests: go test ./cmd/penstock/internal/delivery
package delivery
