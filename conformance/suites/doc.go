// Package suites pins the official conformance suites, so that a program built from here is them, unmodified:
//
//	go test -c sigs.k8s.io/gateway-api/conformance
//	go test -c sigs.k8s.io/gateway-api-inference-extension/conformance
//
// It is a module of its own, because the suites' dependencies must not decide the versions of ours. `make conformance`
// (conformance/certify) builds and runs them on a cluster of conformance/lab.
package suites

import (
	_ "sigs.k8s.io/gateway-api-inference-extension/conformance" // pinned, see above
	_ "sigs.k8s.io/gateway-api/conformance"                     // pinned, see above
)
