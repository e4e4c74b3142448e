// Package publish decides which resources one proxy gets, and when: make before break, gated by the
// proxy's ACKs and NACKs.
//
// A Stream is the state machine of one ADS stream. Its input is a cursor of xds/cache, the proxy's
// requests with their ACKs and NACKs (Handle), and the time. Its output is Flush, the responses to
// send now, in order, and NextFlush, when to call Flush again if nothing else happens. It reads no
// clock, starts no goroutine and never blocks. xds/server drives it.
//
// The order of delivery is the table `stages` (order.go). An item waits for its gate (gates.go).
// Each rule was observed on the real Envoy:
//
//	secrets -> clusters -> their endpoints -> (ACK: all are warm) -> listeners -> routes
//	-> (ACK) -> removed clusters
//
// In detail:
//
//   - Changes of endpoints alone are sent at once (endpoints.go). Endpoints that name a new hop
//     wait for that hop, at most for the watchdog. A hop's virtual host stays until no reachable
//     endpoints name it; the listener of hops stays until no endpoints name it (hops.go).
//   - Listeners and routes wait for the ACK of the clusters that they name: indefinitely for new
//     clusters, and at most for the watchdog for changed clusters.
//   - After a resumption, a listener of unknown version waits for its routes of unknown version, at
//     most for Config.Settle. They may be of an earlier release, and the listener may have filters
//     that only newer routes switch off.
//   - A resource is removed when nothing else names it: no desired version, no version that the
//     proxy may have (in flight, rejected, or unknown after a resumption), and no filter chain
//     whose connections still drain.
//   - A subscription to a missing name is answered at once.
//   - After a NACK the rejected resources are withheld until they have a new version (nack.go), and
//     the proxy keeps their last good version. The rest of the response is sent again. If the error
//     detail names no resource, each resource is sent in a separate response.
//   - A rejected route configuration is bisected (quarantine.go): rejected parts answer 500 or stay
//     as before, and the others are in force. Then the proxy's version, which Stream.Accepted
//     returns, differs from the cache's.
//   - A rejected secret with the certificates of several members is bisected by member (secret.go),
//     and the faulty members are left out. For any other secret the last good version or a
//     placeholder (placeholder.go) is sent, because Envoy stores rejected bytes. A secret that the
//     proxy may have rejected is sent with bytes that the proxy has never received. Resources that
//     the proxy may have rejected because of a secret are sent again after that secret is replaced.
//
// Invariants: the next version of a resource waits for the answer to the previous one (except for
// endpoints and slow clusters), so changes that arrive meanwhile collapse. Work and memory are
// proportional to the pending names, plus one bit per name.
//
// The endpoints of a new cluster are sent only when the proxy requests them, which it does within
// the same round trip. So every request for a name gets exactly one response.
//
// Tests: go test ./xds/publish; with a whole proxy: go test ./xds/xdstest/... A failing random
// sequence there logs how to run it again (-args -sequence=SEED); -args -sequences=N runs more of
// them.
package publish
