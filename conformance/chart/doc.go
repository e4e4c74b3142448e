// Package chart tests the Helm chart in manifests/charts with Helm's own engine: what it renders with its default values is
// manifests/install/penstock.yaml, for people without Helm; and every value that one may set gives objects that Kubernetes'
// types can hold, without a field that they do not know.
//
// It is a module of its own, so that nothing else depends on Helm. Tests: go test . here; `make golden` rewrites the file.
package chart
