// Package manifests embeds the CustomResourceDefinitions of every kind that Penstock reads and
// Kubernetes lacks: Penstock's own, generated from the types in the folders below, and the
// published ones of the Gateway API and its inference extension. discovery/file validates with
// their schemas; an installation applies them.
//
// charts has the Helm chart, and install its output with default values, for installations without
// Helm; conformance/promises/chart tests both. Only generate.sh writes the files in crds ("make
// generate"); they are named group_plural.yaml.
//
// Tests: go test ./manifests/...
package manifests

//go:generate ./generate.sh
