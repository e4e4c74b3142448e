// Package services resolves selectors, Services and host names to endpoints: Services through their
// EndpointSlices, Pods and ModelServers by label, and host names through the answers that
// discovery/hostname stored.
//
// translator calls it for clusters of Services, translator/gatewayapi for backendRefs,
// translator/inference for the members of pools and for pickers.
//
// Invariants: all functions are pure, and read only through a store.Reader; every list is sorted
// and has no duplicates.
//
// Tests: go test ./translator/services
package services
