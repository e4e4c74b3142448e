// Package publish decides what one proxy is sent, and when: make before break, gated by the proxy's
// answers.
//
// A Stream is the state machine of one ADS stream. Its input is a cursor of xds/cache, the proxy's
// requests with their ACKs and NACKs (Handle), and the time. Its output is Flush, the responses to
// send now, in order, and NextFlush, the time of the next Flush if nothing else happens. It reads
// no clock, starts no goroutine and never blocks. xds/server drives it.
//
// The order of delivery is the table `stages` (order.go). What an item waits for is its gate
// (gates.go). Each rule was observed on the real Envoy:
//
//			secrets -> clusters -> endpoints of these -> (ACK: all are warm) -> listeners -> routes -> (ACK) -> removed clusters
//
//		  - Endpoint changes alone go at once (endpoints.go). Endpoints that name a new hop wait for
//	    it, at most as long as the watchdog;
//		    a hop's virtual host stays in its routes until no endpoints name it that a request can reach, and the hops'
//		    listener until no endpoints name it (hops.go).
//		  - Listeners and routes wait for the ACK of the clusters that they name: without a bound for
//	    new clusters, at most
//		    as long as the watchdog for changed ones.
//		  - A name is removed when nothing names it any more: neither what the proxy should have, nor
//	    what it may have (in
//		    flight, rejected, or unknown after a resumption), nor a filter chain whose connections still drain.
//		  - A subscription to a name that does not exist is answered at once.
//		  - After a NACK the rejected resources are withheld until they have a new version (nack.go),
//	    and the proxy keeps their
//		    last good version. The rest of the response is sent again. If the error detail names no resource, each one is
//		    sent in a response of its own.
//		  - A rejected route configuration is bisected (quarantine.go): the rejected parts answer 500,
//	    or stay as before, and
//		    the others are in force. The proxy's version is then not the cache's; Stream.Accepted returns it.
//		  - A rejected secret with the certificates of several members is bisected by member
//	    (secret.go): those at
//		    fault are left out. Of any other secret the last good version is sent again, or a placeholder
//		    (placeholder.go), because Envoy stores what it rejects. What it may have rejected is sent in bytes that it has never got, and resources that it may
//		    have rejected because of a secret are sent again once it has another one.
//
// Invariants: between two changes of one name there is the proxy's answer (endpoints and slow
// clusters excepted), so changes that arrive meanwhile collapse. Work and memory are in proportion
// to what is pending, plus one bit for each name.
//
// The endpoints of a new cluster are not sent before the proxy requests them, although Envoy would
// take them. It requests them within the same round trip, and so every request for a name gets
// exactly one answer.
//
// Tests: go test ./xds/publish; with a whole proxy: go test ./xds/xdstest/... A failing random
// sequence there logs how to run it again (-args -sequence=SEED); -args -sequences=N runs more of
// them.
package publish
