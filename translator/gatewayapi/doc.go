// Package gatewayapi decides the meaning of Gateway API objects: which Gateways and ListenerSets
// are ours, which listeners take traffic, where routes attach, what their rules do and in which
// order, and the reports to users.
//
// translator calls it, with one function for each result. For routes, Candidate returns the
// listeners that may take a route, Contest decides between candidates of a listener that exclude
// each other, and Attach returns the result. Pools and imports come from Backends.
//
// Invariants: functions are pure. They read objects only through their store.Reader, by index keys
// and never whole tables, so the reads are the dependencies. Results are immutable, sorted, and
// independent of the order of arrival. A user's mistake becomes a condition or a finding with the
// field; the rest of the object stays in force.
//
// # Decisions
//
// Certificates are encoded again for Envoy (certificate.go, trust.go), which parses PEM more
// strictly than Go: the bytes at a proxy may differ from the Secret's.
//
// Tests: go test ./translator/gatewayapi
package gatewayapi
