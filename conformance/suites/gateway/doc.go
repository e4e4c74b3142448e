// Package gateway pins Gateway API's official conformance suite. This builds it, unmodified:
//
//	go test -c sigs.k8s.io/gateway-api/conformance
//
// It is a separate module, because the suite's dependencies must not decide the versions of ours.
// `make conformance` (conformance/suites/certify) builds the suites and runs them on clusters of
// conformance/lab.
//
// The suite of v1.7.0 imports sigs.k8s.io/gateway-api-conformance-images, of which the module proxy
// serves no version (403 in November 2026), so Penstock stays on v1.6.3.
package gateway

import _ "sigs.k8s.io/gateway-api/conformance" // pinned
