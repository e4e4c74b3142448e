// Package chart tests the Helm chart in manifests/charts with Helm itself, as conformance/tools/helm pins it: that it lints; that what it renders
// with its default values is manifests/install/penstock.yaml, for people without Helm; that every value that one may set gives objects which
// Kubernetes' types can hold, without a field that they do not know; and, in a lab, that it installs, upgrades and uninstalls Penstock.
//
// Tests: make helm, and go test ./promises/chart; `make golden` rewrites the file. In a lab: make test-lab, or go test -tags lab ./promises/chart
package chart
