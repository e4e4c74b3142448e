// Package credential finds credentials in texts, so that no page, finding, status or command prints
// them: values by the name of their header, parameter or annotation (Named), and credentials within
// any text by their form (Text).
//
// A type's decision about its fields (discovery/store) comes first. This package is for shown
// fields in which a user may have written a credential: a path with a query, a URL with userinfo, a
// header with a token.
//
// Every package may import it; it imports nothing of Penstock. Its functions are pure.
//
// Tests: go test ./discovery/credential
package credential
