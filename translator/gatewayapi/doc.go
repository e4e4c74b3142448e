// Package gatewayapi decides what Gateway API objects mean: which Gateways and ListenerSets are
// ours, which listeners take traffic, where each route is attached, what its rules do, in which
// order they are tried, and the report to the user.
//
// The root of translator calls it, one function a result: Class and Gateway for the objects of an
// operator; for a route Candidate (which listeners may take it), Contest (which candidates of a
// listener exclude each other) and Attach (the result); VirtualHost for one host of a chain of
// requests (of each hostname of its listeners, with or without routes, and of each route), Stream
// for one host of a listener that hands connections on; and the functions in report.go for reports
// about them. Certificate and ClientTrust read what listeners refer to; backendtls.go has which
// BackendTLSPolicy is in force for a backend, and backendtls_report.go its report. meaning.go has
// what the name of an import means (ImportNamed): every lookup of such a name goes through it.
// Pools and imports come in by Backends.
//
// Invariants: every function is pure. It reads objects only through the store.Reader that it is
// given, by the keys of indexes and never a whole table, so that what it has read is what it
// depends on. Results are immutable, sorted, and do not depend on the order in which objects
// arrived. What a user wrote wrong is a condition or a finding that names the field; the rest of
// the object goes on working.
//
// # Decisions
//
// Certificates are encoded again before Envoy gets them (certificate.go, trust.go): Envoy parses
// PEM more strictly than Go, and rejects a block with headers, for instance. So the bytes at a
// proxy are not those of the Secret; the certificates and the key are.
//
// A BackendTLSPolicy that trusts no CA takes the endpoints away: the cluster stays, requests get
// 503, and nothing meant for TLS is ever sent in cleartext.
//
// Tests: go test ./translator/gatewayapi
package gatewayapi
