// Package expected checks the manifests of Gateway API's conformance suite without a cluster. It
// translates each test's manifest like a folder of files, and compares the result with the test's
// expectations: lines in testdata/expected.txt. In a second it checks everything in the suite that
// needs no data plane: conditions, attached routes, supported kinds, and, with `penstock explain`,
// the backends of a request or connection.
//
// It has only tests. The manifests come, unmodified, from the release that
// conformance/suites/gateway pins.
//
// A line of expected.txt is one of
//
//	== MANIFEST.yaml                            the following lines are about this file of the
//	                                            suite
//	KIND NAME: CONDITION...                     conditions of an object: Type=Status, or
//	                                            Type=Status/Reason
//	KIND NAME listener LISTENER N [KINDS]: ...  a listener, its attached routes, some of its
//	                                            supported kinds
//	KIND NAME at PARENT: ...                    a route at a Gateway NAME or "ListenerSet NAME",
//	                                            with /SECTION and :PORT
//	GATEWAY sets N                              the number of attached ListenerSets
//	GATEWAY URL [HEADER=VALUE]... -> ANSWER     the backends of a request, or the beginning of
//	                                            the response
//
// Objects outside of the namespace gateway-conformance-infra have the name "namespace/name".
//
// Tests: cd conformance && go test ./suites/expected
package expected
