// Package pki creates a CA, and certificates that it signs for the programs of a lab's cluster and
// of other harnesses. They are valid for a year and never renewed.
//
// Packages cluster, bench, zeroloss and clusterset call it. Test alone with `go test ./lab/pki`.
package pki
