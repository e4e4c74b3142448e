// Package manifests holds the CustomResourceDefinitions of every kind that Penstock reads and that Kubernetes does not
// have built in: our own, generated from the types in the folders below, and those of the Gateway API and its inference
// extension, as published. The file reader validates with their schemas; an installation applies them.
//
// charts is the Helm chart, and install what it renders with its default values, for people without Helm; conformance/promises/chart
// tests both. Files in crds are written by generate.sh alone ("make generate"); they are named group_plural.yaml.
//
// Tests: go test ./manifests/...
package manifests

//go:generate ./generate.sh
