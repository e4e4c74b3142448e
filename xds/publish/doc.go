// Package publish decides what one proxy is sent, and when: make before break, gated by the proxy's
// responses.
//
// A Stream is the state machine of one ADS stream. Its input is a cursor of xds/cache, the proxy's
// requests with their ACKs and NACKs (Handle), and the time. Its output is Flush, the responses to
// send now, in order, and NextFlush, the time of the next Flush if nothing else happens. It reads
// no clock, starts no goroutine and never blocks. xds/server drives it.
//
// The order of delivery is the table `stages` (order.go). An item waits for its gate (gates.go).
// Each rule was observed on the real Envoy:
//
//	secrets -> clusters -> their endpoints -> (ACK: all are warm) -> listeners -> routes
//	-> (ACK) -> removed clusters
//
// In detail:
//
//   - Endpoint changes alone are sent at once (endpoints.go). Endpoints that name a new hop wait
//     for it, at most for the watchdog. A hop's virtual host stays in its routes until no reachable
//     endpoints name it, and the hops' listener until no endpoints name it (hops.go).
//   - Listeners and routes wait for the ACK of the clusters that they name: indefinitely for new
//     clusters, at most for the watchdog for changed ones.
//   - A name is removed when no other resource names it: neither a desired version, nor one that
//     the proxy may have (in flight, rejected, or unknown after a resumption), nor a filter chain
//     whose connections still drain.
//   - A subscription to a missing name is answered at once.
//   - After a NACK the rejected resources are withheld until they have a new version (nack.go), and
//     the proxy keeps their last good version. The rest of the response is sent again. If the error
//     detail names no resource, each one is sent in a separate response.
//   - A rejected route configuration is bisected (quarantine.go): rejected parts answer 500 or stay
//     as before, and the others are in force. The proxy's version then differs from the cache's;
//     Stream.Accepted returns it.
//   - A rejected secret with the certificates of several members is bisected by member (secret.go),
//     and the faulty members are left out. For any other secret the last good version is sent
//     again, or a placeholder (placeholder.go), because Envoy stores rejected bytes. A secret that
//     the proxy may have rejected is sent with bytes that it has never received. Resources that it
//     may have rejected because of a secret are sent again once it has another one.
//
// Invariants: between two changes of one name the proxy answers (endpoints and slow clusters
// excepted), so changes that arrive meanwhile collapse. Work and memory are proportional to the
// pending names, plus one bit per name.
//
// The endpoints of a new cluster are not sent before the proxy requests them. It requests them
// within the same round trip, and every request for a name then gets exactly one response.
//
// Tests: go test ./xds/publish; with a whole proxy: go test ./xds/xdstest/... A failing random
// sequence there logs how to run it again (-args -sequence=SEED); -args -sequences=N runs more of
// them.
package publish
