// Package inferencepool pins the inference extension's official conformance suite, so that a program built from here is it,
// unmodified:
//
//	go test -c sigs.k8s.io/gateway-api-inference-extension/conformance
//
// It has a go.mod of its own, which names nothing else, because the suite must run with the release of Gateway API that it was
// made with: with v1.6.3's test library it writes no report, and it refuses CRDs of any other release. conformance/suites/certify
// runs it on a cluster with the CRDs that this go.mod names.
package inferencepool

import _ "sigs.k8s.io/gateway-api-inference-extension/conformance" // pinned, see above
