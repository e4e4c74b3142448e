// Package publish decides which resources one proxy gets, and when: make before break, gated by the
// proxy's ACKs and NACKs. A Stream is the state machine of one ADS stream: it reads no clock,
// starts no goroutine and never blocks. xds/server drives it.
//
// The table `stages` (order.go) has the order of delivery. An item waits for its gate (gates.go).
// Each rule was observed on the real Envoy:
//
//	secrets -> clusters -> their endpoints -> (ACK: all are warm) -> listeners -> routes
//	-> (ACK) -> removed clusters
//
// In detail:
//
//   - Changes of endpoints alone are sent at once. Endpoints that name a new hop wait for that hop,
//     at most for Config.Watchdog (hops.go).
//   - Listeners and routes wait for the ACK of the clusters that they name: indefinitely for new
//     clusters, and at most for Config.Watchdog for changed clusters.
//   - A resource is removed when nothing else names it: no desired version, no version that the
//     proxy may have, and no filter chain whose connections still drain.
//   - After a NACK the rejected resources are withheld until they have a new version (nack.go), and
//     the proxy keeps their last good version.
//   - A rejected route configuration is bisected (quarantine.go): rejected parts answer 500 or stay
//     as before. A rejected secret with the certificates of several members is bisected by member
//     (secret.go).
//   - For any other rejected secret the last good version or a placeholder is sent, because Envoy
//     stores rejected bytes.
//
// Invariants: the next version of a resource waits for the answer to the previous one (except for
// endpoints and slow clusters), so changes that arrive meanwhile collapse. Work and memory are
// proportional to the pending names, plus one bit per name. Every request for a name gets exactly
// one response.
//
// Tests: go test ./xds/publish; with a whole proxy: go test ./xds/xdstest/... A failing random
// sequence there logs how to run it again (-args -sequence=SEED); -args -sequences=N runs more of
// them.
package publish
