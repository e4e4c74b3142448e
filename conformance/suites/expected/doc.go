// Package expected checks, without a cluster, the manifests of Gateway API's conformance suite,
// which conformance/suites/gateway pins. It translates each test's manifest as a folder of files,
// and compares the result with testdata/expected.txt, whose lines are
//
//	== MANIFEST.yaml                            the following lines are about this file
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
// Objects outside of the namespace gateway-conformance-infra have the name "namespace/name". Tests:
// cd conformance && go test ./suites/expected
package expected
