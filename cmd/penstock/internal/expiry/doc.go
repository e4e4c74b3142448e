// Package expiry finds certificates that have ended or end soon: those of Gateways and clients,
// their intermediates, and the authorities by which backends and clients are verified. They are in
// Secrets and ConfigMaps that configuration reads. Bundles of the members of a ClusterSet are
// clusterset's.
//
// Package app gives it each change that is committed, and has it run. `penstock translate` calls
// Check.
//
// Invariants: a finding has the name and the dates of a certificate, and nothing else of an object.
// An object is parsed once for each change. What cannot be parsed is left to the part that uses it.
//
// Tests: go test ./cmd/penstock/internal/expiry
package expiry
