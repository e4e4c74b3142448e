// Package pki makes the certificates of a lab's cluster: one authority, and what the programs of Kubernetes serve and
// identify themselves with. They live as long as a lab at most (a year) and are never renewed.
//
// It is called by cluster. Test alone with `go test ./lab/pki`.
package pki
