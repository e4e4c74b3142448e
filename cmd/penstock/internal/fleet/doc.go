// Package fleet keeps one supervised Envoy running for each Gateway, and says when it really serves.
//
// `penstock up` makes one beside its plane. Set is called with the Gateways that there are; Run starts and ends
// Envoys accordingly.
//
// Invariants: when Run returns no Envoy is left. A Gateway that goes and comes back gets a new Envoy.
//
// Tests: go test ./cmd/penstock (up_test.go drives it through the command)
package fleet
