// Package manifests embeds the CustomResourceDefinitions of every kind that Penstock reads and
// Kubernetes lacks. Penstock's CRDs are generated from the types in the folders below ("make
// generate"); Gateway API and its inference extension publish theirs. discovery/file validates with
// the schemas; an installation applies the definitions.
//
// charts has the Helm charts; install has the output of chart penstock with default values. Tests:
// go test ./manifests/...
package manifests

//go:generate ./generate.sh
