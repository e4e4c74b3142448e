// Package gatewayapi decides the meaning of Gateway API objects: which listeners take traffic,
// where routes attach, what their rules do, and the reports to users. translator calls it.
//
// Invariants: functions are pure. They read objects only through their store.Reader, by index keys,
// because each read is a dependency. Results are immutable and sorted. A user's mistake becomes a
// condition or a finding with the field; the rest of the object stays in force.
//
// Tests: go test ./translator/gatewayapi
package gatewayapi
