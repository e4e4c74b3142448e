// Package chart tests the Helm charts in manifests/charts with the Helm that conformance/tools/helm
// pins. They lint. With any values they render valid objects without unknown fields. With default
// values Penstock's chart renders manifests/install/penstock.yaml, for installation without Helm.
// In a lab, it installs, upgrades and uninstalls Penstock; the picker's chart installs an endpoint
// picker, which picks for a Gateway; the external chart installs a processor, a router, a token
// store and workers, which answer.
//
// Tests: make helm, and go test ./promises/chart; `make golden` rewrites the file. In a lab: make
// test-lab, or go test -tags lab ./promises/chart
package chart
