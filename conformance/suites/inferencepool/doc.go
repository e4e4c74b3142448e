// Package inferencepool pins the inference extension's official conformance suite (go test -c
// sigs.k8s.io/gateway-api-inference-extension/conformance).
//
// It is a separate module, because the suite must run with the release of Gateway API for which it
// was built. With the test library of v1.6.3 the suite writes no report. It rejects the CRDs of any
// other release.
package inferencepool

import _ "sigs.k8s.io/gateway-api-inference-extension/conformance" // pinned
