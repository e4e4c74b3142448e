// Package credential decides which texts authenticate a client, so that no page, finding, status or
// command prints them: values by the name of their header, parameter or annotation (Named), and
// credentials within any text by their form (Text).
//
// A type's decision about its fields (discovery/store) comes first. This package is for fields that
// are shown, and into which a user may have written a credential all the same: a path with a query,
// a URL with userinfo, a header with a token.
//
// Every package may import it, and it imports nothing of Penstock. Its functions are pure.
//
// Tests: go test ./discovery/credential
package credential
