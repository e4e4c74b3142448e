// Package expected checks the manifests of Gateway API's conformance suite without a cluster: each test's manifest is read
// as a folder would be, and what it gives is compared with what that test expects, line by line in
// testdata/expected.txt. It says in a second what the suite says in an hour, for what needs no data plane: conditions,
// attached routes, supported kinds, and by `penstock explain` which backend a request or connection would reach.
//
// It has nothing but tests. The manifests come, unmodified, from the release that conformance/suites/gateway pins.
//
// A line of expected.txt is one of
//
//	== MANIFEST.yaml                               what follows is about this file of the suite
//	KIND NAME: CONDITION...                        conditions of an object: Type=Status, or Type=Status/Reason
//	KIND NAME listener LISTENER N [KINDS]: ...     a listener, the routes attached to it, kinds that it supports among others
//	KIND NAME at PARENT: ...                       a route, towards a Gateway NAME or "ListenerSet NAME", with /SECTION and :PORT
//	GATEWAY sets N                                 how many ListenerSets are attached
//	GATEWAY URL [HEADER=VALUE]... -> ANSWER        the backends that get requests, or the beginning of the answer
//
// with "namespace/name" for names outside of gateway-conformance-infra.
//
// Tests: cd conformance && go test ./suites/expected
package expected
