// Package report defines what is shown about an object that a user wrote: conditions, as the
// Gateway API defines them; findings, which name the object, the field, what is wrong and what to
// write instead; and addresses (address.go).
//
// Everyone may import it; it imports nothing of ours. Reports are plain values and immutable once
// handed on. Nothing here decides anything: translation makes reports, discovery/status writes them
// down, xds adds what Envoy answered.
//
// Tests: go test ./discovery/status/report
package report
