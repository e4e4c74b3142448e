// Package chart tests the Helm chart in manifests/charts with the Helm that conformance/tools/helm pins. The chart
// lints. With default values it renders manifests/install/penstock.yaml, for installation without Helm. With any values
// it renders valid objects without unknown fields. In a lab, it installs, upgrades and uninstalls Penstock.
//
// Tests: make helm, and go test ./promises/chart; `make golden` rewrites the file. In a lab: make test-lab, or go test
// -tags lab ./promises/chart
package chart
