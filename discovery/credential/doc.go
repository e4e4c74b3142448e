// Package credential finds credentials in texts, so that no page, finding, status or command prints
// them. It recognizes a value by the name of its header, parameter or annotation (Named), and a
// credential within any text by its form (Text). It is for the fields that discovery/store shows.
//
// Every package may import it. It imports no other package of Penstock.
package credential
