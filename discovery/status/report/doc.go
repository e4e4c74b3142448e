// Package report defines reports about objects that users write: conditions, as in the Gateway API;
// findings, which name the object, the field, the problem and its fix; and addresses (address.go).
//
// Every package may import it; it imports only packages of other projects. Reports are plain
// values, immutable once handed on. Translation and other sources make them; xds makes reports of
// Envoy's answers; discovery/status writes them.
//
// Tests: go test ./discovery/status/report
package report
