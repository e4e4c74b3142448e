// Package apiserver tests discovery/kube against the real API server, which, unlike a fake,
// validates by the CRDs' schemas and the manifests' ValidatingAdmissionPolicy. Each test starts its
// own etcd and kube-apiserver on loopback, without controllers. `make labs` builds them; a test
// takes seconds and needs no root.
//
// Tests: make test-lab, or go test -tags lab ./promises/apiserver
package apiserver
