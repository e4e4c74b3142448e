// Package registrytest is a small registry of models for tests. It implements the part of Hugging
// Face's HTTP API that package fetch uses. It redirects downloads of LFS files to another host.
//
// Tests set faults by the methods of Registry and the fields of File. A Registry records its
// requests.
//
// Tests: go test ./discovery/engine/fetch
package registrytest
