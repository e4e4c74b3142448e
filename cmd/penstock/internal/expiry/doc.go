// Package expiry finds certificates that have ended or end soon, in the Secrets and ConfigMaps that
// configuration reads: of Gateways and clients, their intermediates, and the authorities that
// verify backends and clients. multicluster/set checks the bundles of members of a ClusterSet.
//
// Package app passes it each committed change and runs it. `penstock translate` calls Check.
//
// Invariants: of an object's content, a finding has only the name and the dates of a certificate.
// An object is parsed once for each change. Entries that cannot be parsed are left to the part that
// uses them.
//
// Tests: go test ./cmd/penstock/internal/expiry
package expiry
