// Package publish decides what one proxy is sent, and when: make before break, gated by what the proxy says.
//
// A Stream is the state machine of one ADS stream. What goes in: a cursor of xds/cache, the proxy's requests, ACKs and
// NACKs (Handle), and the time. What comes out of Flush: the responses to send now, in order; and Wake, the time of the
// next Flush if nothing else happens. It reads no clock, starts nothing and blocks on nothing. xds/server drives it.
//
// The order of delivery is the table `stages`; what an item waits for is its gate in gates.go. DESIGN "xDS" asks for
// it, and every rule was seen on the real Envoy:
//
//		secrets -> clusters -> endpoints of these -> (ACK: all are warm) -> listeners -> routes -> (ACK) -> removed clusters
//
//	  - Endpoints alone pass at once; those that name a new hop wait for it, for the watchdog's time at most.
//	  - Listeners and routes wait for the ACK of the clusters that they name: for new ones however long it takes, for
//	    changed ones as long as the watchdog.
//	  - A name is removed when nothing names it any more: neither what the proxy should have, nor anything that it may
//	    have (in flight, refused, or not known because it came back with it), nor a chain whose streams still drain.
//	  - A name that does not exist is answered at once.
//	  - What the proxy refuses stays as it was there, until there is a new version; the rest of the response goes again.
//	    Where its words name nothing, each resource goes in a response of its own.
//	  - A route configuration is looked into (quarantine.go): what is bad in it answers 500, or as before, and all the rest
//	    is in force. So this stream's version is not the cache's; Stream.Accepted is then the one made for it.
//
// Invariants: between two changes of one name the proxy's answer comes first (endpoints and slow clusters excepted), so
// changes that come meanwhile collapse; work and memory are in proportion to what is pending, plus one bit a name.
//
// The endpoints of a new cluster are not sent before the proxy asks for them, although that would work: it asks within
// the same round trip, and a name that was asked for is then always answered exactly once.
//
// Tests: go test ./xds/publish; with a whole proxy: go test ./xds/xdstest/... There a failing random sequence says how
// to run it again (-args -sequence=SEED); -args -sequences=N runs more of them.
package publish
