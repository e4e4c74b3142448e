// Package featuretests has one test for each Gateway API feature that Penstock claims
// (manifests/features), named after it: `go test -run HTTPRouteCORS ./suites/featuretests` is the
// shortest way from a feature to what Envoy gets. Each test drives the whole pipeline, from the
// YAML that a user writes to the resources that Envoy is served, and compares the part that makes
// the feature.
//
// The official suite (conformance/suites/gateway) tests the same features with requests;
// translator/envoy tests them on the real Envoy. This package is for the reader who asks how a
// feature is expressed in Envoy, and for a failure that names it.
//
// It has nothing but tests. Tests: cd conformance && go test ./suites/featuretests
package featuretests
