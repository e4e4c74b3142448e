// Package apiserver tests discovery/kube against the real API server: that it takes every status that we write, which a
// fake would not check against the CRDs' schemas, and that an object means the same from a cluster and from a file.
//
// Each test starts an etcd and a kube-apiserver of its own on loopback, of those that "make labs" builds, without
// controllers; it takes seconds and no root.
//
// Tests: make test-lab, or go test -tags lab ./promises/apiserver
package apiserver
