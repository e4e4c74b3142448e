// Package release has the versions of the running program and of the APIs that it implements. `make
// release` sets the version with the linker. Every other build has the version that the Go
// toolchain records: a tag, or a pseudo-version of a commit. Tests: go test ./manifests/release
package release
