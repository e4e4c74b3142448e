// Package publish decides which resources one proxy gets, and when: make before break, according to
// the proxy's ACKs and NACKs. A Stream is the state machine of one ADS stream: it reads no clock,
// starts no goroutine and never blocks. xds/server drives it.
//
// The table `stages` (order.go) has the order of delivery, and gates.go the waits. Each rule was
// observed on the real Envoy:
//
//	secrets -> clusters -> their endpoints -> (ACK: all are warm) -> listeners -> routes
//	-> (ACK) -> removed clusters
//
// In detail:
//
//   - Changes of endpoints alone are sent at once. Endpoints can name a hop, a virtual host behind
//     an internal listener. Endpoints wait for a new hop, at most for Config.Watchdog (hops.go).
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
// Invariants: the next version of a resource waits for the answer to the previous version, so
// changes collapse meanwhile. Endpoints and slow clusters are exceptions. Work and memory are
// proportional to the pending names, plus one bit per name. Every request for a name gets exactly
// one response.
//
// Tests: go test ./xds/publish; with a simulated proxy: go test ./xds/xdstest/... Failing random
// sequences there log how to repeat them (-args -sequence=SEED); -args -sequences=N runs more.
package publish
