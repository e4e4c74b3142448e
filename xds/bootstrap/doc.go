// Package bootstrap makes the file that an Envoy starts with: where its control plane is, who it says that it is, and
// everything that only a restart of the fleet can change. All the rest comes over ADS.
//
// `penstock bootstrap`, `penstock up` and the fleet in Kubernetes call it. It is pure: the same Config gives the same
// bytes.
//
// Invariants: an Envoy never serves without configuration (it waits for its control plane, however long); it dials
// a control plane that is away every half a second at least; a frozen control plane is noticed.
//
// Tests: go test ./xds/bootstrap (one of them asks the real Envoy); make golden rewrites the
// goldens.
package bootstrap
