// Package manifests embeds the CustomResourceDefinitions of every kind that Penstock reads and that
// is not built into Kubernetes: our own, generated from the types in the folders below, and those
// of the Gateway API and its inference extension, as published. discovery/file validates with their
// schemas; an installation applies them.
//
// charts has the Helm chart, and install its output with default values, for installations without
// Helm; conformance/promises/chart tests both. Only generate.sh writes the files in crds ("make
// generate"); they are named group_plural.yaml.
//
// Tests: go test ./manifests/...
package manifests

//go:generate ./generate.sh
