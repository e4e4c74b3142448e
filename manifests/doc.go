// Package manifests embeds the CustomResourceDefinitions of every kind that Penstock reads and
// Kubernetes lacks. Penstock's own ones are generated from the types in the folders below; the
// Gateway API and its inference extension publish theirs. discovery/file validates with the
// schemas; an installation applies them.
//
// charts has the Helm charts; install has the output of chart penstock with default values, for
// installations without Helm. conformance/promises/chart tests both. Only generate.sh ("make
// generate") writes the files in crds, which are named group_plural.yaml.
//
// Tests: go test ./manifests/...
package manifests

//go:generate ./generate.sh
