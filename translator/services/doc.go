// Package services resolves selectors, Services and host names to endpoints. translator,
// translator/gatewayapi and translator/inference call it.
//
// Invariants: all functions are pure, and read only through a store.Reader. Every list is sorted
// and has no duplicates.
//
// Tests: go test ./translator/services
package services
