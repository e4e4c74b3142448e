// Package authority issues the certificates with which the control plane authenticates to proxies,
// and its processes to each other. It renews them without a restart.
//
// The authority, a CA, is in one Secret that all replicas share; the first replica creates it. Each
// replica issues a certificate for itself, in memory. cmd/penstock serves with GetCertificate and
// gives Bundle to fleets; both follow Run. Between processes both sides authenticate (mutual.go).
// xds/identity authenticates proxies.
//
// An authority is in use for a year. With a third of that left, the next one is created and added
// to the bundle. A day later, when all proxies trust it, it signs; the old one stays in the bundle
// until it expires. One that has expired at the start of a process is replaced at once, and stays
// in the bundle for a week. A Secret that is deleted or damaged is written again by a process that
// has its content. Certificates are valid for 800 days more than they are in use, at both ends: no
// clock that is a year wrong cuts a proxy or a process off. With Config.Validity, for other
// clusters, a certificate ends earlier: a key that is stolen is of use for days. The Secret holds
// this state (state.go), so replicas need no agreement: of two concurrent writes one fails, because
// the Secret has changed.
//
// Rotate replaces an authority before its time (rotation.go). Its overlap may be shorter, and the
// authority before is not trusted any more soon after.
//
// Invariants: an authority signs only after Config.Overlap in the bundle, unless there is no other
// that is valid. A private key is never logged, and leaves the process only for the Secret.
//
// Tests: go test ./xds/authority
package authority
