// Package pki creates the certificates of a lab's cluster: one CA, and the certificates that the
// programs of Kubernetes serve and authenticate with. They are valid for a year and never renewed.
//
// Package cluster calls it. Test alone with `go test ./lab/pki`.
package pki
