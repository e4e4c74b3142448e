// Package featuretests has one test for each Gateway API feature that Penstock claims
// (manifests/features), named after the feature. Each test translates a user's YAML to Envoy's
// resources, and compares the part that makes the feature. conformance/suites/gateway tests the
// same features with requests, and translator/envoy tests them on the real Envoy. Tests: cd
// conformance && go test ./suites/featuretests
package featuretests
