// Package authority makes the certificates by which proxies know the control plane, and its processes each other, and renews
// them without a restart.
//
// The authority (a CA of our own) is kept in one Secret that all replicas share; whoever comes first makes it. Each replica
// signs a certificate for itself, in memory. cmd/penstock serves with GetCertificate and gives Bundle to fleets; both follow
// Run. Between processes both sides show theirs (mutual.go).
//
// An authority lives for a year. When a third of that is left, a next one is made and put into the bundle; a day later, when
// all proxies know it, certificates come from it; the old one stays in the bundle until it expires. The Secret says what is
// the case (state.go), so replicas need no agreement: two that act at once write the same key, and one of them finds that
// the Secret has changed.
//
// Invariants: nothing signs that is not in the bundle since Config.Overlap; a private key is never logged, and leaves the
// process for the Secret alone.
//
// Tests: go test ./xds/authority
package authority
