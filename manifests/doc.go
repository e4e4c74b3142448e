// Package manifests embeds the CustomResourceDefinitions of every kind that Penstock reads and
// Kubernetes lacks. Penstock's own definitions are generated from the types in the folders below.
// Definitions of the Gateway API and its inference extension are the published ones. discovery/file
// validates with the schemas; an installation applies them.
//
// The folder charts has the Helm charts. The folder install has the output of the chart penstock
// with default values, for installations without Helm. conformance/promises/chart tests both. Only
// generate.sh ("make generate") writes the files in crds, which are named group_plural.yaml.
//
// Tests: go test ./manifests/...
package manifests

//go:generate ./generate.sh
