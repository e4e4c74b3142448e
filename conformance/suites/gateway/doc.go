// Package gateway pins Gateway API's official conformance suite, so that a program built from here is it, unmodified:
//
//	go test -c sigs.k8s.io/gateway-api/conformance
//
// It is a module of its own, because the suite's dependencies must not decide the versions of ours; so is the inference
// extension's beside it. `make conformance` (conformance/suites/certify) builds and runs them on clusters of conformance/lab.
package gateway

import _ "sigs.k8s.io/gateway-api/conformance" // pinned, see above
