// Package authority issues and renews the certificates with which the control plane authenticates
// to proxies, and its processes to each other.
//
// The authority is a CA in one Secret that all replicas share; the first replica creates it. Each
// replica issues its own certificate in memory. cmd/penstock serves with GetCertificate and gives
// Bundle to fleets; both follow Run. Between processes both sides authenticate (mutual.go).
// xds/identity authenticates proxies.
//
// An authority is in use for a year. With a third of that left, the next one is created and added
// to the bundle. It signs a day later, when all proxies trust it; the old one stays in the bundle
// until it expires. An authority that has expired when a process starts is replaced at once and
// stays in the bundle for a week. A process restores a deleted or damaged Secret from memory.
// Certificates are valid for 800 days before and after their use, so that a clock that is a year
// wrong rejects none. With Config.Validity, for other clusters, certificates expire earlier, so
// that a stolen key is useful only for days. The Secret holds this state (state.go); of two
// concurrent writes one fails with ErrChanged.
//
// Rotate replaces an authority early (earlyreplacement.go). Its overlap may be shorter, and trust
// in the previous authority ends soon after.
//
// Invariants: an authority signs only after Config.Overlap in the bundle, unless no other is valid.
// A private key is never logged, and leaves the process only for the Secret.
//
// Tests: go test ./xds/authority
package authority
