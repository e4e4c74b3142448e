// Package gateway pins Gateway API's official conformance suite: go test -c
// sigs.k8s.io/gateway-api/conformance builds it. It is a separate module, so that the suite's
// dependencies do not decide Penstock's versions. conformance/suites/certify runs it.
//
// The suite of v1.7.0 imports sigs.k8s.io/gateway-api-conformance-images, of which the module proxy
// serves no version (403 in November 2026), so Penstock stays on v1.6.3.
package gateway

import _ "sigs.k8s.io/gateway-api/conformance" // pinned
