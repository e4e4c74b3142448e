// Package featuretests has one test for each Gateway API feature that Penstock claims
// (manifests/features), named after the feature. Each test translates YAML to Envoy's resources,
// and compares the part that implements the feature. Tests: cd conformance && go test
// ./suites/featuretests
package featuretests
