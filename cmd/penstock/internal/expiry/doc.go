// Package expiry finds certificates that have ended or end soon: of Gateways and clients, their
// intermediates, and the authorities that verify backends and clients. They are in Secrets and
// ConfigMaps that configuration reads. clusterset checks the bundles of members of a ClusterSet.
//
// Package app passes it each committed change and runs it. `penstock translate` calls Check.
//
// Invariants: a finding has the name and the dates of a certificate, and nothing else of an object.
// An object is parsed once for each change. Entries that cannot be parsed are left to the part that
// uses them.
//
// Tests: go test ./cmd/penstock/internal/expiry
package expiry
