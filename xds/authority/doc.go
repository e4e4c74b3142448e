// Package authority issues and renews the certificates with which the control plane authenticates
// to proxies, and its processes to each other.
//
// The authority is a CA in one Secret that all replicas share; the first replica creates it. Each
// replica issues its own certificate in memory. cmd/penstock serves with GetCertificate and gives
// Bundle to fleets. Between processes, both sides authenticate (mutual.go). xds/identity
// authenticates proxies.
//
// An authority is in use for a year. When a third of that is left, the next authority is added to
// the bundle. It signs a day later, when all proxies trust it. The old authority stays in the
// bundle until it expires. An authority that has expired when a process starts is replaced at once
// and stays in the bundle for a week. A process restores a deleted or damaged Secret from memory.
// Certificates are valid for 800 days before and after their use, so that a process whose clock is
// a year wrong rejects no certificate. With Config.Validity, for other clusters, certificates
// expire earlier: a stolen key is useful only for days. The Secret holds this state (state.go). Of
// two concurrent writes, one fails with ErrChanged.
//
// Rotate replaces an authority early (earlyreplacement.go).
//
// Invariants: an authority signs only after Config.Overlap in the bundle, unless no other authority
// is valid. A private key is never logged. An authority's key leaves the process only for the
// Secret.
//
// Tests: go test ./xds/authority
package authority
