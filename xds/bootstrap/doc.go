// Package bootstrap creates the file that an Envoy starts with: the addresses of its control plane,
// its node identity, and all settings that only a restart can change. Everything else arrives over
// ADS.
//
// `penstock bootstrap`, `penstock up` and the fleet on Kubernetes call it. It is pure: the same
// Config gives the same bytes.
//
// Invariants: an Envoy never serves without configuration; it waits for its control plane
// indefinitely. It dials an unreachable control plane at least every half second, and detects a
// frozen one.
//
// A bootstrap has a profile (DefaultProfile, a separate log in xds/cache), so that an upgrade that
// moves a filter can serve older proxies the older list. Changes that protect proxies reach every
// profile, at the price of one drain.
//
// Tests: go test ./xds/bootstrap (some run the real Envoy); make golden rewrites the goldens.
package bootstrap
