// Package authority issues the certificates with which the control plane authenticates to proxies, and its processes to
// each other. It renews them without a restart.
//
// The authority, a CA, is in one Secret that all replicas share; the first replica creates it. Each replica issues a
// certificate for itself, in memory. cmd/penstock serves with GetCertificate and gives Bundle to fleets; both follow
// Run. Between processes both sides authenticate (mutual.go). xds/identity authenticates proxies.
//
// An authority is valid for a year. With a third of that left, the next one is created and added to the bundle. A day
// later, when all proxies trust it, it signs; the old one stays in the bundle until it expires. The Secret holds this
// state (state.go), so replicas need no agreement: of two concurrent writes one fails, because the Secret has changed.
//
// Invariants: an authority signs only after Config.Overlap in the bundle. A private key is never logged, and leaves the
// process only for the Secret.
//
// Tests: go test ./xds/authority
package authority
