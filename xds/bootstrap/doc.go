// Package bootstrap creates the file that an Envoy starts with: the addresses of its control plane,
// its node identity, and everything that only a restart can change. All other configuration arrives
// over ADS.
//
// `penstock bootstrap`, `penstock up` and the fleet on Kubernetes call it. It is pure: the same
// Config gives the same bytes.
//
// Invariants: an Envoy never serves without configuration; it waits for its control plane without a
// bound. It dials an unreachable control plane at least every half second, and detects a frozen
// one.
//
// A bootstrap has a profile (DefaultProfile, a log of its own in xds/cache), so that an upgrade
// that moves a filter can serve older proxies the older list. What protects a proxy is not held
// back so: it reaches every profile, at the price of one drain.
//
// Tests: go test ./xds/bootstrap (some run the real Envoy); make golden rewrites the goldens.
package bootstrap
