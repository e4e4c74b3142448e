// Package pki creates certificates, valid for a year and never renewed: a CA, and what it signs for
// the programs of a lab's cluster, and for the parts of other harnesses.
//
// Packages cluster, bench, zeroloss and clusterset call it. Test alone with `go test ./lab/pki`.
package pki
