// Package registrytest is a small registry of models for tests. It speaks the part of Hugging
// Face's HTTP that package fetch uses: LFS files are redirected to another host.
//
// Faults are fields of Registry, which tests set before requests. Requests are recorded.
//
// Tests: go test ./discovery/engine/fetch
package registrytest
