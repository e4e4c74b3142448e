// Package authority issues and renews the certificates with which the control plane authenticates
// to proxies, and its processes to each other. The authority is a CA in one Secret that all
// replicas share.
//
// An authority is in use for a year. When a third of the year is left, the next authority is added
// to the bundle. It signs a day later, when all proxies trust it. Certificates are valid for 800
// days before and after their use, so that a process whose clock is a year wrong accepts them.
//
// Invariants: an authority signs only after Config.Overlap in the bundle, unless no other authority
// is valid. A private key is never logged.
//
// Tests: go test ./xds/authority
package authority
