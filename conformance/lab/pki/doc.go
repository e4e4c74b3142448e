// Package pki creates a CA and certificates for the programs of a lab's cluster and of other
// harnesses. Certificates are valid for a year and never renewed. Test alone with `go test
// ./lab/pki`.
package pki
