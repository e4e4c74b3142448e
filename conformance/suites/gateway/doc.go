// Package gateway pins Gateway API's official conformance suite (go test -c
// sigs.k8s.io/gateway-api/conformance) for conformance/suites/certify. It is a separate module, so
// that the suite's dependencies do not decide Penstock's versions.
//
// Penstock stays on v1.6.3: the suite of v1.7.0 imports sigs.k8s.io/gateway-api-conformance-images,
// and the module proxy serves no version of it (403 in November 2026).
package gateway

import _ "sigs.k8s.io/gateway-api/conformance" // pinned
