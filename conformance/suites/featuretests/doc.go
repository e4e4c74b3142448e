// Package featuretests has one test for each Gateway API feature that Penstock claims
// (manifests/features), named after it: `go test -run HTTPRouteCORS ./suites/featuretests` is the
// shortest way from a feature to Envoy's configuration. Each test translates a user's YAML to
// Envoy's resources, and compares the part of them that makes the feature.
//
// The official suite (conformance/suites/gateway) tests the same features with requests;
// translator/envoy tests them on the real Envoy. This package shows how Envoy expresses a feature,
// and names the feature that fails.
//
// It has only tests. Tests: cd conformance && go test ./suites/featuretests
package featuretests
